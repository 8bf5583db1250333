"""What is asked to be printed is read back: every snippet is run against stand-ins, and its lines go through the reader."""

import ast
import time
from types import SimpleNamespace

import pytest

from analysis.log_lines import FIELDS, FRAMEWORKS, framework_of, hardware_command, snippet, wanted
from storage.reader import LogReader

STEPS = 40


class Number(float):
    """A tensor of one value, as far as a snippet asks."""

    def item(self) -> float:
        return float(self)

    def mean(self) -> "Number":
        return self

    def float(self) -> "Number":
        return self


def printed_lines(code: str, names: dict) -> str:
    """Run the print of a snippet at each step and return what it printed."""
    lines: list[str] = []
    body = code[code.index("print(") :]
    for step in range(1, STEPS + 1):
        here = names | {"step": step, "loss": Number(3 - step / 50), "start": time.perf_counter() - 0.25}
        here["print"] = lambda text, flush=False: lines.append(text)
        exec(compile(body, "snippet", "exec"), here)  # noqa: S102
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[set[str], int]:
    reader = LogReader("a.log")
    reader.feed(text.encode())
    reader.finish()
    report = reader.report()
    return {column.name for column in report.columns}, report.records


def torch() -> SimpleNamespace:
    return SimpleNamespace(cuda=SimpleNamespace(max_memory_allocated=lambda: 3 << 30))


def names_of_a_loop() -> dict:
    group = SimpleNamespace(param_groups=[{"lr": 5e-4}])
    made = {"time": time, "torch": torch(), "optimizer": group, "grad_norm": 0.7, "tokens": 4096, "total_steps": STEPS}
    made |= {"res": SimpleNamespace(aux_loss=None), "X": SimpleNamespace(numel=lambda: 4096)}
    made |= {name: Number(0.5) for name in ("logits_loss", "aux_loss", "rewards", "kl", "entropy", "lengths")}
    made |= {"steps_per_epoch": 20, "epoch": 0, "iters": STEPS, "args": SimpleNamespace(epochs=2, accumulation_steps=8)}
    return made | {"scaler": SimpleNamespace(get_scale=lambda: 65536.0)}


@pytest.mark.parametrize("framework", ["pytorch", "minimind"])
def test_a_loop_prints_what_is_read(framework):
    asked = wanted(("loss", "logits_loss", "aux_loss"), ("loss_scale", "reward", "kl", "entropy", "response_length"))
    columns, records = read(printed_lines(snippet(framework, asked).code, names_of_a_loop()))
    assert records == STEPS
    assert set(FIELDS) & set(asked) <= columns


def test_deepspeed_prints_what_is_read():
    engine = SimpleNamespace(
        get_lr=lambda: [1e-4], get_global_grad_norm=lambda: 0.4, optimizer=SimpleNamespace(cur_scale=1024.0), global_steps=0
    )
    asked = wanted(("loss",), ("loss_scale",))
    code = snippet("deepspeed", asked).code.replace("engine.global_steps", "step")
    columns, records = read(printed_lines(code, names_of_a_loop() | {"engine": engine}))
    assert records == STEPS
    assert set(FIELDS) & set(asked) <= columns


def test_a_callback_of_the_trainer_prints_what_is_read():
    lines: list[str] = []
    code = snippet("trainer", wanted(("loss",), ())).code
    classes = code[code.index("class") : code.index("trainer.add_callback")]
    import json

    names: dict = {"TrainerCallback": object, "json": json, "time": time, "torch": torch()}
    names["print"] = lambda text, flush=False: lines.append(text)
    exec(compile(classes, "snippet", "exec"), names)  # noqa: S102
    callback = names["PrintFields"]()
    for step in range(1, STEPS + 1):
        state = SimpleNamespace(global_step=step, max_steps=STEPS, epoch=step / 20, is_world_process_zero=True)
        callback.on_step_begin(None, state, None)
        callback.on_log(None, state, None, logs={"loss": 3 - step / 50, "grad_norm": 0.5, "learning_rate": 5e-5})
    columns, records = read("\n".join(lines) + "\n")
    assert records == STEPS
    assert {"loss", "lr", "grad_norm", "step_time_seconds", "memory_peak_bytes", "total_steps"} <= columns


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_snippet_is_valid_and_says_what_it_leaves_out(framework):
    asked = wanted(("loss",), ("gpu_utilization_percent", "memory_bytes"))
    found = snippet(framework, asked)
    if found.language == "python":
        ast.parse(found.code)
    assert "gpu_utilization_percent" in found.left
    assert set(found.left) <= set(asked)


def test_what_no_loop_knows_comes_from_the_driver():
    assert "utilization.gpu" in hardware_command(("gpu_utilization_percent",))
    assert not hardware_command(("loss", "lr"))


def test_an_unknown_format_is_taken_for_a_loop():
    assert framework_of("megatron") == "megatron"
    assert framework_of(None) == framework_of("no such format") == "pytorch"


def test_the_line_for_minimind_fits_its_loop():
    code = snippet("minimind", wanted(("loss", "logits_loss", "aux_loss"), ())).code
    assert "loss.item() * args.accumulation_steps" in code  # the loop has divided it
    assert "in the place of the clip_grad_norm_ call that is there" in code  # clipped once, not twice
    assert "logits_loss.item()" not in code

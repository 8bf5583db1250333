"""Lines to paste into a training script: what prints the fields that a log lacks, in the words of its framework.

Every line that is printed by these snippets is read back in the tests: nothing is asked for that we would not understand.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from messages import N_, Text

CLIP = (
    "# after loss.backward(), before optimizer.step()",
    "grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
)
SMI = "nvidia-smi --query-gpu=timestamp,memory.used,memory.total,utilization.gpu,temperature.gpu,power.draw --format=csv -l 10"
HARDWARE = ("gpu_utilization_percent", "gpu_temperature_celsius", "gpu_power_watts", "memory_total_bytes")
# What is printed: canonical column -> (name, expression, format, unit), with the names that such scripts use.
FIELDS: dict[str, tuple[str, str, str, str]] = {
    "loss": ("loss", "loss.item()", ".4f", ""),
    "logits_loss": ("logits_loss", "logits_loss.item()", ".4f", ""),
    "aux_loss": ("aux_loss", "aux_loss.item()", ".4f", ""),
    "lr": ("lr", "optimizer.param_groups[0]['lr']", ".6e", ""),
    "grad_norm": ("grad_norm", "float(grad_norm)", ".4f", ""),
    "loss_scale": ("loss_scale", "scaler.get_scale()", ".0f", ""),
    "step_time_seconds": ("step_time", "time.perf_counter() - start", ".4f", "s"),
    "tokens_per_second": ("tokens_per_second", "tokens / (time.perf_counter() - start)", ".0f", ""),
    "memory_peak_bytes": ("memory_peak", "torch.cuda.max_memory_allocated() / 2**30", ".2f", "GiB"),
    "reward": ("reward", "rewards.mean().item()", ".4f", ""),
    "kl": ("kl", "kl.mean().item()", ".5f", ""),
    "entropy": ("entropy", "entropy.mean().item()", ".4f", ""),
    "response_length": ("response_length", "lengths.float().mean().item()", ".1f", ""),
}
# What a log should have in any case, those first that most rules need.
ALWAYS = ("loss", "lr", "grad_norm", "step_time_seconds", "tokens_per_second", "memory_peak_bytes")
PLACES = ("timestamp", "epoch", "total_steps")


@dataclass(frozen=True)
class Snippet:
    """What to paste: code and its language, where it belongs, and what it can't print (columns)."""

    code: str
    language: str
    where: Text
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Framework:
    """A framework: its name for people, the formats of logs that it writes, and what makes its snippet from the columns."""

    title: str
    formats: tuple[str, ...]
    make: Callable[[Sequence[str]], Snippet]


def wanted(printed: Collection[str], missing: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the new line prints: those that the old one has, what every log should have, what is missed."""
    old = [name for name in FIELDS if name in printed]
    memory = {"memory_bytes": "memory_peak_bytes"}
    asked = [memory.get(name, name) for name in missing]
    every = [*old, *ALWAYS, *asked, *PLACES]
    return tuple(dict.fromkeys(name for name in every if name in FIELDS or name in PLACES or name in HARDWARE))


def framework_of(format_name: str | None) -> str:
    """Return the framework that writes logs of a format; a plain PyTorch loop where none is known to."""
    return next((key for key, one in FRAMEWORKS.items() if format_name in one.formats), "pytorch")


def snippet(framework: str, columns: Sequence[str]) -> Snippet:
    """Return what to paste so that a framework prints columns. Raises KeyError for an unknown framework."""
    return FRAMEWORKS[framework].make(columns)


def hardware_command(columns: Sequence[str]) -> str:
    """Return the command that prints what no training loop knows; empty where nothing of it is asked for."""
    return SMI if any(name in HARDWARE for name in columns) else ""


def _printed(columns: Sequence[str], head: str, others: dict[str, tuple[str, str, str, str]] | None = None) -> str:
    """Return a print statement: a head, then `name: value` for each column that has an expression."""
    known = FIELDS | (others or {})
    parts = [head]
    for column in columns:
        if column in known and column not in PLACES:
            name, expression, form, unit = known[column]
            parts.append(f"{name}: {{{expression}:{form}}}{unit}")
    lines = [f'    f"{part}, "' for part in parts[:-1]] + [f'    f"{parts[-1]}",']
    return "print(\n" + "\n".join(lines) + "\n    flush=True,\n)"


def _setup(columns: Sequence[str], clip: Sequence[str] = CLIP) -> list[str]:
    timed = any(name in columns for name in ("step_time_seconds", "tokens_per_second", "timestamp"))
    found = ["import time", "", "# at the start of each step", "start = time.perf_counter()", ""] if timed else []
    if "grad_norm" in columns:
        found += [*clip, ""]
    return [*found, "# after optimizer.step()"]


STAMP = "{time.strftime('%Y-%m-%d %H:%M:%S')} "


def _pytorch(columns: Sequence[str]) -> Snippet:
    head = (STAMP if "timestamp" in columns else "") + "step: {step}" + ("/{total_steps}" if "total_steps" in columns else "")
    epoch = {"fraction": ("epoch", "step / steps_per_epoch", ".4f", "")} if "epoch" in columns else {}
    code = "\n".join(_setup(columns)) + "\n" + _printed([*epoch, *columns], head, epoch)
    return Snippet(
        code, "python", Text(N_("In the training loop, in the place of the print that is there now.")), _left(columns)
    )


# Its loss is divided by the accumulated steps, what the router costs is in `res`, and it clips gradients itself.
MINIMIND_AUX = "(res.aux_loss.item() if getattr(res, 'aux_loss', None) is not None else 0.0)"
MINIMIND_CLIP = (
    "# in the place of the clip_grad_norm_ call that is there",
    "grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)",
)
MINIMIND = {
    "loss": ("loss", "loss.item() * args.accumulation_steps", ".4f", ""),
    "aux_loss": ("aux_loss", MINIMIND_AUX, ".4f", ""),
    "logits_loss": ("logits_loss", f"loss.item() * args.accumulation_steps - {MINIMIND_AUX}", ".4f", ""),
    "tokens_per_second": ("tokens_per_second", "X.numel() / (time.perf_counter() - start)", ".0f", ""),
}


def _minimind(columns: Sequence[str]) -> Snippet:
    head = (STAMP if "timestamp" in columns else "") + "Epoch:[{epoch + 1}/{args.epochs}]({step}/{iters})"
    code = "\n".join(_setup(columns, MINIMIND_CLIP)) + "\n" + _printed(columns, head, MINIMIND)
    return Snippet(
        code, "python", Text(N_("In train_epoch, in the place of the Logger call that is there now.")), _left(columns)
    )


def _deepspeed(columns: Sequence[str]) -> Snippet:
    engine = {
        "lr": ("lr", "engine.get_lr()[0]", ".6e", ""),
        "grad_norm": ("grad_norm", "engine.get_global_grad_norm() or 0.0", ".4f", ""),
        "loss_scale": ("loss_scale", "engine.optimizer.cur_scale", ".0f", ""),
    }
    head = (STAMP if "timestamp" in columns else "") + "step: {engine.global_steps}"
    head += "/{total_steps}" if "total_steps" in columns else ""
    setup = [
        "import time",
        "",
        "# at the start of each step",
        "start = time.perf_counter()",
        "",
        "# after engine.step(), on rank 0",
    ]
    code = "\n".join(setup) + "\n" + _printed(columns, head, engine)
    where = Text(
        N_("In the training loop; set wall_clock_breakdown in the DeepSpeed configuration for times of forward and backward.")
    )
    return Snippet(code, "python", where, _left(columns))


def _trainer(columns: Sequence[str]) -> Snippet:
    extra = []
    if "step_time_seconds" in columns or "tokens_per_second" in columns:
        extra.append('            "step_time": time.perf_counter() - self.start,')
    if "memory_peak_bytes" in columns:
        extra.append('            "memory_peak_gib": torch.cuda.max_memory_allocated() / 2**30,')
    if "timestamp" in columns:
        extra.append('            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S"),')
    code = "\n".join(
        [
            "import json, time, torch",
            "from transformers import TrainerCallback",
            "",
            "class PrintFields(TrainerCallback):",
            "    def on_step_begin(self, args, state, control, **kwargs):",
            "        self.start = time.perf_counter()",
            "",
            "    def on_log(self, args, state, control, logs=None, **kwargs):",
            "        line = {",
            '            "step": state.global_step, "total_steps": state.max_steps, "epoch": state.epoch, **(logs or {}),',
            *extra,
            "        }",
            "        if state.is_world_process_zero:",
            "            print(json.dumps(line), flush=True)",
            "",
            "trainer.add_callback(PrintFields())",
        ]
    )
    where = Text(
        N_("Before trainer.train(). Trainer hands over loss, grad_norm and learning_rate; set logging_steps and disable_tqdm.")
    )
    return Snippet(code, "python", where, tuple(name for name in _left(columns) if name != "tokens_per_second"))


def _lightning(columns: Sequence[str]) -> Snippet:
    body = _printed(
        [name for name in columns if name in ("loss", "lr", "step_time_seconds", "memory_peak_bytes")],
        "step: {trainer.global_step}/{trainer.estimated_stepping_batches}, epoch: {trainer.current_epoch}",
        {
            "loss": ("loss", "outputs['loss'].item()", ".4f", ""),
            "lr": ("lr", "trainer.optimizers[0].param_groups[0]['lr']", ".6e", ""),
            "step_time_seconds": ("step_time", "time.perf_counter() - self.start", ".4f", "s"),
        },
    )
    code = "\n".join(
        [
            "import time, torch",
            "from lightning.pytorch import Callback",
            "",
            "class PrintFields(Callback):",
            "    def on_train_batch_start(self, trainer, module, batch, index):",
            "        self.start = time.perf_counter()",
            "",
            "    def on_train_batch_end(self, trainer, module, outputs, batch, index):",
            *("        " + line for line in body.splitlines()),
            "",
            "trainer = Trainer(callbacks=[PrintFields()])",
        ]
    )
    return Snippet(code, "python", Text(N_("Where the Trainer is made.")), _left(columns, ("grad_norm",)))


def _keras(columns: Sequence[str]) -> Snippet:
    code = "\n".join(
        [
            "import json, time",
            "",
            "class PrintFields(keras.callbacks.Callback):",
            "    step = 0",
            "",
            "    def on_train_batch_begin(self, batch, logs=None):",
            "        self.start = time.perf_counter()",
            "",
            "    def on_train_batch_end(self, batch, logs=None):",
            "        self.step += 1",
            '        line = {"step": self.step, **(logs or {}), "step_time": time.perf_counter() - self.start}',
            '        line["lr"] = float(self.model.optimizer.learning_rate)',
            "        print(json.dumps({name: float(value) for name, value in line.items()}), flush=True)",
            "",
            "model.fit(..., callbacks=[PrintFields()])",
        ]
    )
    return Snippet(code, "python", Text(N_("Where fit is called.")), _left(columns, ("grad_norm", "memory_peak_bytes")))


def _flags(code: str, where: str, prints: Collection[str], language: str = "bash") -> Callable[[Sequence[str]], Snippet]:
    """Return what makes a snippet that is the same for all columns, of which it prints some."""

    def make(columns: Sequence[str]) -> Snippet:
        left = tuple(name for name in columns if name in FIELDS and name not in prints)
        return Snippet(code, language, Text(where), (*left, *(name for name in columns if name in HARDWARE)))

    return make


def _left(columns: Sequence[str], more: Collection[str] = ()) -> tuple[str, ...]:
    return tuple(name for name in columns if name in HARDWARE or name in more)


FRAMEWORKS: dict[str, Framework] = {
    "pytorch": Framework(N_("PyTorch loop"), ("generic", "nanogpt", "nanochat", "modded-nanogpt", "step-comma"), _pytorch),
    "minimind": Framework("MiniMind", ("minimind", "minimind-tutorial"), _minimind),
    "trainer": Framework("Hugging Face Trainer", ("hf_dict", "trainer_state", "hf-dict", "trainer-state", "jsonl"), _trainer),
    "deepspeed": Framework("DeepSpeed", ("deepspeed", "deepspeed-chat"), _deepspeed),
    "megatron": Framework(
        "Megatron-LM",
        ("megatron", "gpt-neox"),
        _flags(
            "--log-interval 1 --log-throughput --log-params-norm --log-num-zeros-in-grad --timing-log-level 1",
            N_("On the command line of pretrain_gpt.py."),
            ("loss", "lr", "grad_norm", "loss_scale", "step_time_seconds"),
        ),
    ),
    "lightning": Framework("Lightning", ("litgpt",), _lightning),
    "keras": Framework("Keras", ("keras",), _keras),
    "fairseq": Framework(
        "fairseq",
        ("fairseq",),
        _flags(
            "--log-format json --log-interval 10",
            N_("On the command line of fairseq-train."),
            ("loss", "lr", "grad_norm", "loss_scale", "tokens_per_second"),
        ),
    ),
    "mmengine": Framework(
        "MMEngine",
        ("mmengine",),
        _flags(
            "default_hooks = dict(logger=dict(type='LoggerHook', interval=10))\n"
            "optim_wrapper = dict(clip_grad=dict(max_norm=1.0))  # prints grad_norm",
            N_("In the configuration file."),
            ("loss", "lr", "grad_norm", "step_time_seconds", "memory_peak_bytes"),
            "python",
        ),
    ),
    "verl": Framework(
        "verl",
        ("verl",),
        _flags(
            "trainer.logger=['console'] trainer.test_freq=10",
            N_("On the command line."),
            ("loss", "lr", "grad_norm", "reward", "kl", "entropy", "response_length", "step_time_seconds", "tokens_per_second"),
        ),
    ),
}

"""Prints any segment as the log of a training script, in the forms that such scripts use, with the rubbish that real logs hold.

A form knows the names, units and digits under which it prints a column. `print_log` gives the lines; `spoiled` puts between
them what other programs print, cuts some lines in half and repeats progress bars, as captured terminals have them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.segment import Segment

GIB = 2**30
Cells = list[str]


@dataclass(frozen=True)
class Form:
    """How a script prints a row.

    cells: column -> (pattern of % formatting, divisor).
    before: what stands before the cells, from (step, plan, epoch, time stamp); between, after: around the cells.
    evals: line of an evaluation from (step, loss), None if it prints none; ranks: how the process is named, None if
    it can't be; clock: form of the time of day, "" without; nan, inf: how they are printed; head: lines ahead of everything.
    blank: what an absent value is printed as, None: the cell is left out.
    """

    cells: Mapping[str, tuple[str, float]]
    before: Callable[[int, int, float, str], str]
    between: str
    after: str = ""
    evals: str | None = None
    ranks: str | None = None
    clock: str = ""
    nan: str = "nan"
    inf: str = "inf"
    blank: str | None = None
    head: Callable[[Sequence[str]], list[str]] = field(default=lambda names: [])


PLAIN = {
    "%.4f": (
        "loss",
        "logits_loss",
        "aux_loss",
        "grad_norm",
        "reward",
        "kl",
        "entropy",
        "policy_loss",
        "epoch",
        "data_time_seconds",
    ),
    "%.6g": ("lr",),
    "%.5f": ("step_time_seconds",),
    "%.1f": ("response_length", "loss_scale", "tokens_per_second"),
    "%.2f": ("params_norm", "elapsed_seconds"),
    "%.0f": (
        *("batch_size", "gpu_utilization_percent", "gpu_temperature_celsius", "gpu_power_watts", "memory_bytes"),
        *("memory_total_bytes", "reserved_bytes"),
    ),
}


def _pairs(pattern: str, units: Mapping[str, tuple[str, float]] | None = None) -> dict[str, tuple[str, float]]:
    """Return cells for the common columns: `pattern` has the gaps {name} and {value}."""
    plain = {name: (value, 1) for value, names in PLAIN.items() for name in names}
    cells = plain | dict(units or {})
    return {name: (pattern.replace("{name}", name).replace("{value}", value), by) for name, (value, by) in cells.items()}


KEYS = {
    "step_time_seconds": "step_time",
    "data_time_seconds": "data_time",
    "gpu_utilization_percent": "gpu_util",
    "gpu_temperature_celsius": "gpu_temp",
    "gpu_power_watts": "gpu_power",
    "memory_bytes": "mem",
    "memory_total_bytes": "mem_total",
}


def _renamed(cells: dict[str, tuple[str, float]]) -> dict[str, tuple[str, float]]:
    return {name: (pattern.replace(name, KEYS.get(name, name), 1), by) for name, (pattern, by) in cells.items()}


UNITS = {
    "step_time_seconds": ("%.5fs", 1),
    "memory_bytes": ("%.3fGiB", GIB),
    "memory_total_bytes": ("%.1fGiB", GIB),
    "gpu_utilization_percent": ("%.0f%%", 1),
    "gpu_temperature_celsius": ("%.0fC", 1),
    "gpu_power_watts": ("%.0fW", 1),
}
MILLISECONDS = UNITS | {"step_time_seconds": ("%.2fms", 0.001)}
CANONICAL = ("loss", "logits_loss", "aux_loss", "reward", "kl", "policy_loss", "response_length")
HF_NAMES = {"lr": "learning_rate", "response_length": "completion_length"}


def _hf_cells() -> dict[str, tuple[str, float]]:
    cells = _renamed(_pairs("'{name}': {value}"))
    return {name: (text.replace(f"'{name}'", f"'{HF_NAMES.get(name, name)}'"), by) for name, (text, by) in cells.items()}


FORMS: dict[str, Form] = {
    "canonical": Form(
        {
            name: (text, by)
            for name, (text, by) in _pairs("{name}: {value}", {"lr": ("%.8f", 1)}).items()
            if name in (*CANONICAL, "lr")
        },
        lambda step, plan, epoch, at: f"Epoch:[1/1]({step}/{plan}), ",
        ", ",
    ),
    "hf_dict": Form(
        _hf_cells(),
        lambda step, plan, epoch, at: (
            f"{100 * step // max(plan, 1):3d}%|###       | {step}/{plan} [00:10<00:20,  1.00it/s]\n{{"
        ),
        ", ",
        "}",
        evals="{{'eval_loss': %.4f, 'eval_runtime': 12.3, 'eval_samples_per_second': 80.1, 'epoch': 0.5}}",
    ),
    "megatron": Form(
        {
            "step_time_seconds": ("elapsed time per iteration (ms): %.2f", 0.001),
            "lr": ("learning rate: %.6E", 1),
            "batch_size": ("global batch size: %5.0f", 1),
            "loss": ("lm loss: %.6E", 1),
            "loss_scale": ("loss scale: %.1f", 1),
            "grad_norm": ("grad norm: %.4f", 1),
            "params_norm": ("params norm: %.3f", 1),
        },
        lambda step, plan, epoch, at: f" [{at}] iteration {step:8d}/{plan:8d} | consumed samples: {step * 32:12d} | ",
        " | ",
        " | number of skipped iterations:   0 | number of nan iterations:   0 |",
        evals=" validation loss at iteration %d | lm loss value: %.6E | lm loss PPL: 1.000000E+01 |",
        clock="%Y-%m-%d %H:%M:%S",
    ),
    "jsonl": Form(
        _pairs('"{name}": {value}'),
        lambda step, plan, epoch, at: f'{{"step": {step}, "total_steps": {plan}, "timestamp": "{at}", ',
        ", ",
        "}",
        evals='{"step": %d, "eval_loss": %.4f}',
        ranks='"rank": %d, ',
        clock="%Y-%m-%dT%H:%M:%S",
        nan="NaN",
        inf="Infinity",
    ),
    "csv": Form(
        _pairs("{value}"),
        lambda step, plan, epoch, at: f"{step},{plan},{at},",
        ",",
        clock="%Y-%m-%d %H:%M:%S",
        blank="",
        head=lambda names: ["step,total_steps,timestamp," + ",".join(names)],
    ),
    "key_value": Form(
        _renamed(_pairs("{name}={value}", UNITS)),
        lambda step, plan, epoch, at: f"step={step} max_steps={plan} ",
        " ",
        evals="step=%d eval_loss=%.4f",
        ranks="rank=%d ",
    ),
    "pipes": Form(
        _renamed(_pairs("{name}: {value}", MILLISECONDS)),
        lambda step, plan, epoch, at: f"{at},123 - trainer - INFO - step: {step}/{plan} | ",
        " | ",
        evals="2026-01-05 08:00:00,000 - trainer - INFO - eval | step: %d | eval_loss: %.4f",
        ranks="rank: %d | ",
        clock="%Y-%m-%d %H:%M:%S",
    ),
    "brackets": Form(
        _renamed(_pairs("{name} {value}", UNITS)),
        lambda step, plan, epoch, at: f"[{at}] [INFO] step {step} of {plan}, ",
        ", ",
        evals="[2026-01-05 08:00:00] [INFO] step %d, eval_loss %.4f",
        clock="%Y-%m-%d %H:%M:%S",
    ),
    "nanogpt": Form(
        {"loss": ("loss %.4f", 1), "step_time_seconds": ("time %.2fms", 0.001)},
        lambda step, plan, epoch, at: f"iter {step}: ",
        ", ",
        ", mfu 38.20%",
        evals="step %d: train loss 2.0000, val loss %.4f",
    ),
    "verl": Form(
        {
            "entropy": ("actor/entropy:%.5f", 1),
            "policy_loss": ("actor/pg_loss:%.5f", 1),
            "kl": ("actor/ppo_kl:%.5f", 1),
            "grad_norm": ("actor/grad_norm:%.4f", 1),
            "lr": ("actor/lr:%.3g", 1),
            "reward": ("critic/rewards/mean:%.4f", 1),
            "response_length": ("response_length/mean:%.1f", 1),
        },
        lambda step, plan, epoch, at: f"(TaskRunner pid=4711) step:{step} - ",
        " - ",
    ),
}
LOSS_ONLY = frozenset({"hf_dict"})  # evaluations without their step


def carries(form: str, needs: Sequence[str], *, evals: bool = False, ranks: bool = False, time: bool = False) -> bool:
    """Say whether a form can print these columns, evaluations, several processes, and the time of day."""
    style = FORMS[form]
    able = all(name in style.cells for name in needs)
    return able and not (evals and not style.evals) and not (ranks and not style.ranks) and not (time and not style.clock)


def print_log(segment: Segment, form: str, *, said: Mapping[int, Sequence[str]] | None = None) -> list[str]:
    """Return the lines of a log, without line ends; a line may hold several.

    said: what the text says, by the row before which it stands (the number of rows: at the end). Columns that the form does
    not know are not printed.
    """
    style = FORMS[form]
    several = len(segment.ranks) > 0 and style.ranks is not None
    names = [name for name in segment.rows.columns if name in style.cells]
    rows = _several(segment, style, names) if several else _lines(segment, style, names)
    evals = _evals(segment, style, form)
    lines = list(style.head(names))
    for row, text in enumerate(rows):
        lines += (said or {}).get(row, ())
        lines.append(text)
        lines += evals.get(row, ())
    return lines + list((said or {}).get(len(segment), ()))


def _lines(segment: Segment, style: Form, names: Sequence[str]) -> Iterator[str]:
    before = _before(segment, style)
    columns = [_cells(segment.values(name), segment.printed(name), *style.cells[name], style) for name in names]
    if style.blank is not None or not any(name in segment.absent for name in names):
        for start, *cells in zip(before, *columns, strict=True):
            yield start + style.between.join(cells) + style.after
        return
    for start, *cells in zip(before, *columns, strict=True):
        yield start + style.between.join(cell for cell in cells if cell) + style.after


def _several(segment: Segment, style: Form, names: Sequence[str]) -> Iterator[str]:
    """Yield a block of lines a step: the first process prints everything, the others their loss."""
    first = list(_lines(segment, style, names))
    before = _before(segment, style)
    pattern = style.cells["loss"][0]
    ranks = segment.ranks["rank"].to_numpy()
    losses = segment.ranks["loss"].to_numpy()
    count = int(ranks.max()) + 1
    for row, (start, whole) in enumerate(zip(before, first, strict=True)):
        block = [start + (style.ranks or "") % 0 + whole[len(start) :]]
        for rank in range(1, count):
            block.append(start + (style.ranks or "") % rank + pattern % losses[row * count + rank] + style.after)
        yield "\n".join(block)


def _before(segment: Segment, style: Form) -> list[str]:
    steps = segment.steps().astype(np.int64).tolist()
    plan = segment.total_steps or steps[-1]
    epoch = segment.values("epoch").tolist()
    stamps = [""] * len(segment)
    if style.clock:
        times = segment.rows["timestamp"] if segment.has("timestamp") else _steady(segment)
        stamps = times.astype("datetime64[s]").astype(str).tolist() if isinstance(times, np.ndarray) else _texts(times)
        stamps = [stamp.replace("T", " ") if "T" not in style.clock else stamp.replace(" ", "T") for stamp in stamps]
    return [style.before(step, plan, done, at) for step, done, at in zip(steps, epoch, stamps, strict=True)]


def _texts(times: object) -> list[str]:
    return [str(item) for item in np.asarray(times).astype("datetime64[s]").astype(str)]


def _steady(segment: Segment) -> np.ndarray:
    """Return a time for each row of a run without a clock: its step times added up, or a second a row."""
    seconds = segment.values("step_time_seconds") if segment.has("step_time_seconds") else np.ones(len(segment))
    each = np.diff(segment.steps(), prepend=0)
    passed = np.cumsum(np.nan_to_num(seconds, nan=1.0) * np.clip(each, 1, None))
    return np.datetime64("2026-01-05T08:00:00") + np.round(passed).astype("timedelta64[s]")


def _cells(values: np.ndarray, printed: np.ndarray, pattern: str, divisor: float, style: Form) -> Cells:
    numbers = (values / divisor).tolist()
    cells = [pattern % number for number in numbers]
    if style.nan != "nan":
        for row in np.flatnonzero(~np.isfinite(values)):
            cells[row] = cells[row].replace("nan", style.nan).replace("inf", style.inf)
    for row in np.flatnonzero(~printed):
        cells[row] = style.blank or ""
    return cells


def _evals(segment: Segment, style: Form, form: str) -> dict[int, list[str]]:
    if not len(segment.evals) or not style.evals:
        return {}
    steps = segment.steps()
    found: dict[int, list[str]] = {}
    pairs = zip(segment.evals["step"].tolist(), segment.evals["eval_loss"].tolist(), strict=True)
    for step, loss in pairs:
        row = int(np.searchsorted(steps, step))
        values = (loss,) if form in LOSS_ONLY else (int(step), loss)
        text = style.evals.replace("{{", "{").replace("}}", "}") % values
        found.setdefault(row, []).append(text)
    return found


RUBBISH = (
    "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs require grad",
    "  warnings.warn(",
    "",
    "INFO:root:prefetch queue at 12 of 16",
    "W0105 08:12:44.120000 4711 torch/_dynamo/convert_frame.py] cache size limit reached",
    "wandb: Network latency is high, metrics are kept in memory",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (2301 > 2048)",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used.",
    "\x1b[32m[loader]\x1b[0m shard 17 opened",
    "Map:  43%|████▎     | 4310/10000 [00:02<00:03, 1731.2 examples/s]",
    "node3: link eth2 is up",
    "数据加载线程已启动",
)


def spoiled(lines: Sequence[str], rng: np.random.Generator, *, rubbish: float = 0.01, halves: float = 0.002) -> list[str]:
    """Return the lines with rubbish between them and some cut in half; the first and last hundredth stay as they are."""
    count = len(lines)
    keep = max(count // 100, 12)
    result = list(lines)
    for at in range(keep, count - keep):
        if rng.random() < halves and len(result[at]) > 20:
            result[at] = result[at][: int(rng.integers(8, len(result[at]) - 4))]
    for at in sorted(rng.integers(keep, max(count - keep, keep + 1), int(rng.poisson(rubbish * count))).tolist(), reverse=True):
        result.insert(min(at, count), str(rng.choice(RUBBISH)))
    return result

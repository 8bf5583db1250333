"""Which fields a log prints, how often, and what can't be told without them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.ending import current_launch
from analysis.rules.dense_aux import routed
from analysis.schedule import schedule
from analysis.segment import HARDWARE, NOT_METRICS, Segment
from analysis.wall import wall
from messages import N_, Text

SPEED = (
    *("step_time_seconds", "tokens_per_second", "samples_per_second", "steps_per_second", "tflops_per_gpu", "mfu_percent"),
    *("interval_runtime", "data_time_seconds"),
)
GRADIENTS = ("grad_norm", "max_grad", "num_zeros", "params_norm", "loss_scale")
RATES = ("lr", "lr_mul", "lr_before")
LOSSES = ("loss", "logits_loss", "aux_loss", "policy_loss", "perplexity")
MEMORY = ("memory_bytes", "memory_peak_bytes")
USUAL = 0.9  # of the rows that must print a field for it to be counted in full
# How good a source of time is: a clock sees pauses, whole minutes of an epoch see little.
CLOCKS = {
    "timestamp": 1.0,
    "elapsed_seconds": 1.0,
    "step_time_seconds": 0.9,
    "interval_runtime": 0.9,
    "tokens_per_second": 0.7,
    "samples_per_second": 0.7,
    "steps_per_second": 0.7,
    "time": 0.7,
    "epoch_time_minutes": 0.5,
}
SHAPES = {
    "constant": N_("constant"),
    "linear": N_("linear"),
    "cosine": N_("cosine"),
    "inverse_sqrt": N_("inverse square root"),
    "step": N_("in steps"),
    "wsd": N_("warm-up, stable, decay"),
    "warmup": N_("still warming up"),
}


@dataclass(frozen=True)
class Part:
    """One thing that is graded: score 0…1 (None: not to be told), what was seen, what can't be told for lack of it, and the
    columns that tell it where these are what was seen."""

    key: str
    title: str
    score: float | None
    seen: tuple[Text, ...] = ()
    lost: tuple[Text, ...] = ()
    columns: tuple[str, ...] = ()


def cover(segment: Segment, column: str) -> float:
    """Return the share of the training rows that print a column."""
    return float(segment.printed(column).mean()) if len(segment) else 0.0


def coverage(segments: Sequence[Segment]) -> pd.DataFrame:
    """Return of every metric of the training rows how many print it, their share, and the lines of the first and last."""
    rows: dict[str, list[float]] = {}
    for segment in segments:
        lines = segment.values("line") if segment.has("line") else np.full(len(segment), np.nan)
        for column in segment.rows.columns:
            if column in NOT_METRICS:
                continue
            at = np.flatnonzero(segment.printed(column))
            known = rows.setdefault(column, [0, np.nan, np.nan])
            if len(at):
                known[0] += len(at)
                known[1] = np.fmin(known[1], lines[at[0]])
                known[2] = np.fmax(known[2], lines[at[-1]])
    total = sum(len(segment) for segment in segments)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["printed", "first_line", "last_line"])
    return frame.assign(share=frame["printed"] / max(total, 1)).rename_axis("column").reset_index()


def classes(segment: Segment) -> tuple[Part, ...]:
    """Return the four classes of fields that a log must have: layered losses, learning rate, progress, time."""
    return _layers(segment), _rate(segment), _progress(segment), _time(segment)


def _layers(segment: Segment) -> Part:
    main = max((cover(segment, name) for name in LOSSES), default=0.0)
    if not main:
        return Part("losses", N_("Layered losses"), 0.0, (), (Text(N_("whether anything is learned")),))
    seen = [Text(N_("a loss in {share:.0%} of the rows"), {"share": main})]
    if segment.has("logits_loss") and segment.has("aux_loss"):
        seen.append(Text(N_("the main and the routing loss apart from the total")))
        return Part("losses", N_("Layered losses"), main, tuple(seen))
    if routed(segment.config) is False:
        seen.append(Text(N_("declared dense: the total is the main loss")))
        return Part("losses", N_("Layered losses"), main, tuple(seen))
    apart = N_(
        "whether the ability is not learned or the constraint (routing) is at work: the parts of the loss are not printed"
    )
    return Part("losses", N_("Layered losses"), 0.7 * main, tuple(seen), (Text(apart),))


def _rate(segment: Segment) -> Part:
    name = next((name for name in RATES if segment.has(name)), None)
    if name is None:
        lost = N_("whether a change of the loss comes from the schedule of the learning rate")
        return Part("rate", N_("Learning rate"), 0.0, (), (Text(lost),))
    share = cover(segment, name)
    seen = [Text(N_("printed in {share:.0%} of the rows"), {"share": share})]
    if name != "lr":
        seen.append(Text(N_("as {column}, not as the rate itself"), {"column": name}))
    known = schedule(segment) if name == "lr" else None
    if known is not None and known.shape in SHAPES:
        gaps = {"shape": Text(SHAPES[known.shape]), "step": known.warmup_end}
        warmed = known.warmup_end is not None and known.shape not in ("wsd", "warmup")
        course = N_("fine enough to recognise its course: warm-up to step {step:,}, then {shape}")
        seen.append(Text(course if warmed else N_("fine enough to recognise its course: {shape}"), gaps))
    return Part("rate", N_("Learning rate"), (1.0 if name == "lr" else 0.7) * share, tuple(seen))


def _progress(segment: Segment) -> Part:
    has_step, planned = segment.has("step") and cover_of_steps(segment) > 0, bool(segment.total_steps)
    seen, lost = [], []
    if has_step:
        seen.append(Text(N_("the step")))
    else:
        lost.append(Text(N_("at which step something happened: rows can only be counted")))
    if planned:
        seen.append(Text(N_("the planned number of steps")))
    else:
        lost.append(Text(N_("how much is done and when it will be finished: the planned number of steps is not printed")))
    if segment.has("epoch"):
        seen.append(Text(N_("the epoch")))
    return Part("progress", N_("Progress"), 0.6 * has_step + 0.4 * planned, tuple(seen), tuple(lost))


def cover_of_steps(segment: Segment) -> float:
    """Return the share of the rows that have a step."""
    steps = segment.values("step")
    return float(np.isfinite(steps).mean()) if len(steps) else 0.0


def _time(segment: Segment) -> Part:
    known = wall(segment)
    if known is None:
        nothing = Text(N_("what the training costs, when it will be done, whether it hangs or slows down"))
        return Part("time", N_("Time"), 0.0, (), (nothing,))
    seen = (known.text, *known.notes)
    score = CLOCKS.get(known.source, 0.7)
    lost = (
        ()
        if score == 1.0
        else (Text(N_("how long pauses between steps and outages last: only a clock in each line sees them")),)
    )
    return Part("time", N_("Time"), score, seen, lost)


def aspects(segments: Sequence[Segment]) -> tuple[Part, ...]:
    """Return the six things to be watched in a training: each is there (1) or not (0), with the columns that tell it."""
    segment = current_launch(segments)
    evals = [name for name in segment.evals.columns if name not in NOT_METRICS]
    evals += [name for name in segment.rows.columns if name.startswith("eval_")]
    hardware = [name for name in sorted(HARDWARE) if segment.logs(name)] + _one_of(segment, ("memory_peak_bytes",))
    told = (
        ("loss", N_("Loss curve"), _one_of(segment, LOSSES), N_("whether it learns")),
        ("evaluation", N_("Evaluation"), evals, N_("whether it memorises: that needs data that is not trained on")),
        ("hardware", N_("Hardware"), hardware, N_("whether the card is full, idle, hot or near its memory limit")),
        ("speed", N_("Speed"), _one_of(segment, SPEED) or _clock(segment), N_("whether it slows down, and what it costs")),
        (
            "gradients",
            N_("Gradients"),
            _one_of(segment, GRADIENTS),
            N_("whether updates explode or vanish before the loss shows it"),
        ),
        ("rate", N_("Learning rate"), _one_of(segment, RATES), N_("whether the schedule does what was planned")),
    )
    found = []
    for key, title, columns, question in told:
        lost = () if columns else (Text(question),)
        found.append(Part(key, title, float(bool(columns)), (), lost, tuple(dict.fromkeys(columns))))
    return tuple(found)


def _one_of(segment: Segment, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if segment.has(name)]


def _clock(segment: Segment) -> list[str]:
    known = wall(segment)
    return [known.source] if known else []

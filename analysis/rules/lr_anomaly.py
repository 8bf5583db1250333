"""The learning rate does something no schedule does.

Meaning: The learning rate is negative, zero before the end, jumps up, collapses, falls for a while and comes back, or never
leaves its warm-up. The loss follows it: too high breaks the run, too low wastes it.

Causes: A scheduler with the wrong number of steps, a resume without the scheduler's state, two schedulers stepping, or a
negative value from an optimizer bug. A rate that falls too fast may come from a schedule that is shorter than the run
(weight decay does not change the learning rate in AdamW).

What to do: Print the scheduler's state, compare warm-up, total steps and minimum with the plan, and restart from the last
checkpoint before the step named here if the loss suffered.

Source: learning-rate rows of the common trouble tables; criteria relative to the rate's own past.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.attribution import explain
from analysis.digits import print_unit
from analysis.evidence import fact, finding_at, times, where
from analysis.findings import Cause, Finding, Severity
from analysis.segment import Segment
from analysis.stretches import joined
from analysis.warm_restarts import warm_restarts
from messages import N_, Text

NEEDS = ("lr",)
SHAPE_KEYS = ("lr_scheduler_type", "lr_decay_style", "lr_schedule", "lr_sched", "scheduler", "lr_scheduler")
MOST_HOLES = 3  # more falls than that are a habit: a cycle, or the rates of several groups of parameters in turn
HALT_ROWS = 30  # in which a rate falls at each row before it stops
HALT_PACE = 0.4  # of the usual fall a row, which it still has when it stops
PEAK_KEYS = ("max_lr", "peak_lr", "learning_rate", "lr")


def check(
    segment: Segment,
    *,
    jump_ratio: float = 2.0,
    settle_rows: int = 10,
    zero_rows: int = 3,
    zero_until: float = 0.97,
    collapse_share: float = 0.9,
    collapse_within: float = 0.02,
    collapse_until: float = 0.8,
    stuck_share: float = 0.9,
    hole_ratio: float = 4.0,
    halt_share: float = 0.25,
) -> Iterator[Finding]:
    """Yield what is wrong with the learning rate of a launch.

    jump_ratio: rise from one row to the next, after settle_rows rows and beyond any earlier rate.
    zero_rows: rows in a row at exactly zero, before zero_until of the plan (and of the rows, where it faded out).
    collapse_share: fall within collapse_within of the plan, before collapse_until of it.
    stuck_share: of a declared peak that the rate must pass; judged after max(60 rows, 2 % of the plan) without a change.
    hole_ratio: fall and rise, each from one row to the next, between which the rate was somewhere else.
    halt_share: of the highest rate above which a rate that fell bit by bit does not stop.
    """
    rows = np.flatnonzero(np.isfinite(segment.values("lr")))
    lr = segment.values("lr")[rows]
    if not len(lr):
        return
    yield from _negative(segment, rows, lr)
    yield from _zero(segment, rows, lr, zero_rows, zero_until)
    yield from _jumps(segment, rows, lr, jump_ratio, settle_rows)
    yield from _holes(segment, rows, lr, hole_ratio)
    yield from _collapse(segment, rows, lr, collapse_share, collapse_within, collapse_until)
    yield from _stuck(segment, rows, lr, stuck_share)
    yield from _halted(segment, rows, lr, halt_share)


def check_articles(
    segment: Segment, *, constant_rows: int = 10, faster: float = 0.1, faster_rows: int = 10
) -> Iterator[Finding]:
    """Yield a negative rate, a rate that never changes (information), and one that falls faster than its declared schedule.

    constant_rows: rows from which on an unchanged rate is said; faster: of the peak, by which the rate lies below the
    declared schedule for faster_rows rows.
    """
    rows = np.flatnonzero(np.isfinite(segment.values("lr")))
    lr = segment.values("lr")[rows]
    if not len(lr):
        return
    yield from _negative(segment, rows, lr)
    if len(lr) >= constant_rows and np.ptp(lr) == 0:
        text = Text(N_("The learning rate has never changed ({lr:.3g}): is a fixed rate meant?"), {"lr": float(lr[0])})
        yield _finding(segment, rows, lr, 0, text, known=constant_rows - 1, severity=Severity.INFO)
    below = _below_declared(segment, rows, lr, faster)
    first = next((first for first, last in joined(np.flatnonzero(below)) if last - first + 1 >= faster_rows), None)
    if first is not None:
        gaps = _gaps(segment, rows, lr, first)
        text = Text(N_("The learning rate falls faster than its declared schedule since {step}"), gaps)
        found = _finding(segment, rows, lr, first, text, known=first + faster_rows - 1, severity=Severity.WARNING)
        quoted = N_("Weight decay set too large, as the source article has it (in AdamW it does not change the learning rate)")
        yield replace(found, causes=(*found.causes, Cause("weight_decay", Text(quoted))))


def _below_declared(segment: Segment, rows: np.ndarray, lr: np.ndarray, share: float) -> np.ndarray:
    """Say where the rate is below the schedule that the configuration declares by more than a share of its peak (m,)."""
    shape = next((str(value).lower() for key, value in segment.config.items() if _last_part(key) in SHAPE_KEYS), "")
    total = segment.total_steps
    if not total or "restart" in shape or not any(name in shape for name in ("cosine", "linear")):
        return np.zeros(len(lr), dtype=bool)
    top = int(np.argmax(lr))
    steps = segment.steps()[rows]
    share_done = np.clip((steps - steps[top]) / max(total - steps[top], 1), 0, 1)
    declared = lr[top] * (np.cos(np.pi * share_done) + 1) / 2 if "cosine" in shape else lr[top] * (1 - share_done)
    return (lr < declared - share * lr[top]) & (np.arange(len(lr)) > top)


def _last_part(key: object) -> str:
    return str(key).replace("/", ".").rpartition(".")[2].replace("-", "_").lower()


def _negative(segment: Segment, rows: np.ndarray, lr: np.ndarray) -> Iterator[Finding]:
    bad = np.flatnonzero(lr < 0)
    if len(bad):
        text = Text(N_("The learning rate is negative from {step} on ({lr:.3g})"), _gaps(segment, rows, lr, bad[0]))
        yield _finding(segment, rows, lr, int(bad[0]), text, end=_end(lr, bad))


def _zero(segment: Segment, rows: np.ndarray, lr: np.ndarray, needed: int, until: float) -> Iterator[Finding]:
    """Zero for some rows.

    A rate that faded out is the end of a schedule: it is said only if training goes on well beyond it, and not where the
    log prints too few digits to tell zero from small.
    """
    runs = _runs(lr == 0)
    for first, last in runs[runs[:, 0] > 0]:
        unit, peak = print_unit(lr[:first]), float(lr[:first].max())
        faded = lr[first - 1] <= 3 * unit
        held = max(needed, int((1 - until) * first) if faded else 0)
        progress = segment.progress(int(rows[first]))
        if (faded and peak < 200 * unit) or last - first + 1 < held or (progress is not None and progress >= until):
            continue
        gaps = _gaps(segment, rows, lr, first)
        text = Text(N_("The learning rate is zero from {step} on"), gaps)
        if faded:
            text = Text(N_("The learning rate faded to zero by {step} and training goes on"), gaps)
        end = None if last == len(lr) - 1 else int(last)
        severity = Severity.WARNING if faded else Severity.CRITICAL
        yield _finding(segment, rows, lr, int(first), text, known=int(first) + held - 1, end=end, severity=severity)
        return


def _jumps(segment: Segment, rows: np.ndarray, lr: np.ndarray, ratio: float, settle: int) -> Iterator[Finding]:
    """Rises that neither the warm-up's own pace nor an earlier rate explains (a warm restart goes back to an old peak)."""
    if len(lr) <= settle:
        return
    steps = np.diff(lr)
    highest = np.maximum.accumulate(lr)[:-1]
    pace = np.maximum.accumulate(np.abs(steps))
    with np.errstate(divide="ignore", invalid="ignore"):
        jumped = (lr[1:] > ratio * lr[:-1]) & (lr[:-1] > 0) & (lr[1:] > ratio * highest)
    jumped[1:] &= steps[1:] > 5 * pace[:-1]
    jumped[: settle - 1] = False
    for at in np.flatnonzero(jumped)[:10] + 1:
        gaps = {**_gaps(segment, rows, lr, at), "before": float(lr[at - 1]), "ratio": times(lr[at], lr[at - 1])}
        text = Text(N_("The learning rate jumped {ratio:.3g}× at {step}, from {before:.3g} to {lr:.3g}"), gaps)
        yield _finding(segment, rows, lr, int(at), text, end=_back(lr, int(at), float(highest[at - 1])))


def _holes(segment: Segment, rows: np.ndarray, lr: np.ndarray, ratio: float) -> Iterator[Finding]:
    """Falls at one row that are taken back at another, near the old level: no schedule does that, warm restarts only rise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = lr[1:] / lr[:-1]
    back, falls = 0, np.flatnonzero((step > 0) & (step < 1 / ratio)) + 1
    for at in map(int, falls if len(falls) <= MOST_HOLES else ()):
        rises = np.flatnonzero(step[at:] > ratio)
        if at < back or not len(rises):
            continue
        back = int(at + rises[0] + 1)
        if any(restart.row == rows[back] for restart in warm_restarts(segment)):
            continue
        if 0.5 <= lr[back] / lr[at - 1] <= 1.1 and np.ptp(lr[at:back]) < 0.5 * lr[at - 1]:
            gaps = {**_gaps(segment, rows, lr, at), "before": float(lr[at - 1]), "end": where(segment, int(rows[back - 1]))}
            text = Text(N_("The learning rate fell from {before:.3g} to {lr:.3g} from {step} to {end} and came back"), gaps)
            yield _finding(segment, rows, lr, int(at), text, known=back, end=back - 1, severity=Severity.WARNING)


def _collapse(
    segment: Segment, rows: np.ndarray, lr: np.ndarray, share: float, within: float, until: float
) -> Iterator[Finding]:
    total = segment.total_steps
    if not total or len(lr) < 20 or not segment.has("step"):
        return
    again = np.flatnonzero(np.diff(segment.steps()[rows]) < 0)
    if len(again):  # judged since the last resume
        rows, lr = rows[again[-1] + 1 :], lr[again[-1] + 1 :]
    steps = segment.steps()[rows]
    if len(lr) < 20 or not np.isfinite(steps).all():
        return
    earlier = np.searchsorted(steps, steps - max(within * total, steps[1] - steps[0]))
    floor = (lr > 0) & (lr < (1 - share) * lr[earlier]) & (steps < until * total)
    bad = np.flatnonzero(floor)
    cycles = [restart.row for restart in warm_restarts(segment)]
    if len(bad) and not any(row > rows[bad[0]] for row in cycles):  # the end of a cycle is low by design
        at = int(bad[0])
        gaps = {**_gaps(segment, rows, lr, at), "before": float(lr[earlier[at]]), "share": at and float(steps[at] / total)}
        text = Text(N_("The learning rate fell from {before:.3g} to {lr:.3g} by {step}, at {share:.0%} of the plan"), gaps)
        yield _finding(segment, rows, lr, at, text, end=_back_up(lr, at))


def _stuck(segment: Segment, rows: np.ndarray, lr: np.ndarray, share: float) -> Iterator[Finding]:
    """Constant below the peak that the configuration declares: without one it looks like any constant schedule."""
    peak = declared_peak(segment.config)
    if peak is None or lr.max() >= 0.95 * peak:
        return
    changed = np.flatnonzero(np.diff(lr) != 0)
    since = int(changed[-1]) + 1 if len(changed) else 0
    held = max(60, int(0.02 * (segment.total_steps or 0) / max(_interval(segment), 1)))
    if len(lr) - since > held and 0 < lr[-1] < share * peak:
        gaps = {**_gaps(segment, rows, lr, since), "peak": peak}
        text = Text(N_("The learning rate has stood at {lr:.3g} since {step}; its declared peak is {peak:.3g}"), gaps)
        yield _finding(segment, rows, lr, since, text, known=since + held, severity=Severity.WARNING)


def _halted(segment: Segment, rows: np.ndarray, lr: np.ndarray, share: float) -> Iterator[Finding]:
    """Constant from one row to the next after a steady fall: a cosine ends flat, a line at a floor that is low."""
    runs = _runs(np.diff(lr) == 0)
    held = np.maximum(60, (0.1 * runs[:, 0]).astype(int))
    long = (runs[:, 1] - runs[:, 0] + 1 >= held) & (runs[:, 0] >= HALT_ROWS)  # few are: a printed rate has few digits
    for (first, last), least in zip(runs[long], held[long], strict=True):
        fall = -np.diff(lr[first - HALT_ROWS : first + 1])
        if fall.min() <= 0:
            continue
        top = int(np.flatnonzero(lr[: first + 1] == lr[: first + 1].max())[-1])
        usual = (lr[top] - lr[first]) / max(first - top, 1)
        if lr[first] > share * lr[top] and fall[-5:].mean() > HALT_PACE * usual:
            gaps = {**_gaps(segment, rows, lr, first), "before": float(lr[top])}
            text = Text(N_("The learning rate fell steadily from {before:.3g} and has stood at {lr:.3g} since {step}"), gaps)
            end = None if last + 1 == len(lr) - 1 else int(last) + 1
            known = int(first + least)
            yield _finding(segment, rows, lr, int(first), text, known=known, end=end, severity=Severity.WARNING)
            return


def declared_peak(config: Any) -> float | None:
    """Return the peak learning rate that the log's configuration declares, None without one."""
    for key, value in config.items():
        if _last_part(key) in PEAK_KEYS:
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if 0 < number < float("inf"):
                return number
    return None


def _finding(
    segment: Segment,
    rows: np.ndarray,
    lr: np.ndarray,
    at: int,
    title: Text,
    *,
    end: int | None = None,
    known: int | None = None,
    severity: Severity = Severity.CRITICAL,
) -> Finding:
    row, last = int(rows[at]), int(rows[end]) if end is not None else len(segment) - 1
    causes, advice = explain(segment, "lr_anomaly", row)
    before = max(at - 1, 0)
    return finding_at(
        segment,
        kind="lr_anomaly",
        severity=severity,
        first=row,
        known=row if known is None else int(rows[min(known, len(rows) - 1)]),
        end=None if end is None else last,
        title=title,
        evidence=(
            fact(N_("learning rate before"), float(lr[before]), segment=segment, row=int(rows[before])),
            fact(N_("learning rate at that step"), float(lr[at]), segment=segment, row=row),
            fact(N_("highest learning rate before"), float(lr[: max(at, 1)].max())),
        ),
        causes=causes,
        advice=advice,
    )


def _gaps(segment: Segment, rows: np.ndarray, lr: np.ndarray, at: int) -> dict[str, Any]:
    return {"step": where(segment, int(rows[at])), "lr": float(lr[at])}


def _end(lr: np.ndarray, bad: np.ndarray) -> int | None:
    return None if bad[-1] == len(lr) - 1 else int(bad[-1])


def _back(lr: np.ndarray, at: int, level: float) -> int | None:
    down = np.flatnonzero(lr[at:] <= 1.05 * level)
    return at + int(down[0]) - 1 if len(down) else None


def _back_up(lr: np.ndarray, at: int) -> int | None:
    up = np.flatnonzero(lr[at:] > 5 * lr[at])
    return at + int(up[0]) - 1 if len(up) else None


def _runs(mask: np.ndarray) -> np.ndarray:
    """Return first and last position of each run of True, (k, 2)."""
    edges = np.diff(np.r_[0, mask.view(np.int8), 0])
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1], axis=1)


def _interval(segment: Segment) -> float:
    steps = segment.steps()
    return float(np.median(np.diff(steps[:1000]))) if len(steps) > 1 else 1.0


def sick() -> Segment:
    """Return a run whose learning rate jumps tenfold."""
    from analysis.simulate import simulate

    return simulate(rows=600, seed=3, fault="lr_jump").segment


def well() -> Segment:
    """Return a run whose learning rate drops in steps, as it should."""
    from analysis.simulate import simulate

    return simulate(rows=600, seed=3, kind="step_drop").segment

"""How long the run still needs, with a range, from the best source that the log has; no number where there is none.

Steps left times the pace so far, plus the pauses that come back, counted at their steps. Left out of the pace: starting up,
hangs, restarts, and slow stretches that are over. The range has three parts: chance (bootstrap over blocks of the run),
drift (how far the means of eight windows lie apart), and how much the pauses vary. While the run is in a slow stretch,
nobody knows how long that lasts: as long again as it has lasted is the even bet, and both ends are told.

The range is about a run that goes on as it has. Failures to come are not in it unless a failure rate is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.ending import current_launch
from analysis.epoch_time import EpochTime, epoch_time
from analysis.intervals import SOURCES
from analysis.over import done, ended, steps_left
from analysis.pace import HANG, HICCUP, RESTART, Pace, pace
from analysis.segment import Segment
from analysis.wall import LONGEST
from messages import N_, Text

BLOCKS, WINDOWS, DRAWS = 64, 8, 1000
FEW = 24  # intervals of a launch below which those of the launch before are used too
FEW_ROWS = 3  # of a launch below which nothing shows how steady it is
FLOOR = 0.005  # relative: what even the smoothest past does not show of the future
DRIFT = 0.03  # relative: by how much a pace comes to change over a launch, of real logs (bench/cost.py --logs)
FEW_SPREAD = 0.15  # relative: of one interval, where there are too few to see how they differ
TREND = 3.5  # standard errors from which a pace that changes steadily is taken where it stands now
QUANTILES = (5, 10, 50, 90, 95)
ADD_A_FIELD = N_(
    "the log prints no time: add the step time in seconds (step_time), a timestamp with its date to each line, "
    "or the time since the start"
)
UNCLEAR_TIME = N_("the log prints `time` and not of what: name it step_time (seconds a step) or elapsed_time")
FIRST = N_("a first estimate only: lines so far: {rows:,}")
NOT_COVERED = N_("failures to come are not included")
OUTAGE = N_("{hours:.2g} hours of hangs and restarts are taken not to come back")
PAST_SLOW = N_("a slow stretch of {hours:.2g} hours is over and taken not to come back")
SLOW_NOW = N_("the run is {share:.0%} slower than at its best since {steps:,} steps; how long that lasts is not known")
OTHERWISE = N_("the range holds what the other possible meanings of epoch_time make of it")
FAILURES = N_("failures: one in {hours:.3g} hours, each costing {lost:.2g} hours, as given")


@dataclass(frozen=True)
class Estimate:
    """Seconds left: percentiles if the run goes on as it has, and where they come from.

    p10…p90 hold the truth 8 times in 10, p5…p95 9 times in 10. notes: what is left out or assumed, in words.
    if_lasts, if_returns: seconds left if a slow stretch of now lasts to the end, or is over at once; None without one.
    """

    p10: float
    p50: float
    p90: float
    source: Text
    p5: float = 0.0
    p95: float = 0.0
    notes: tuple[Text, ...] = ()
    if_lasts: float | None = None
    if_returns: float | None = None


@dataclass(frozen=True)
class FailureRate:
    """A prior about failures: hours of running between two of this job, and hours lost with each (down and redone)."""

    hours_between: float
    hours_lost: float


def time_left(
    segments: Sequence[Segment],
    *,
    meaning: str | None = None,
    total_steps: int | None = None,
    failures: FailureRate | None = None,
) -> Estimate | None:
    """Return the time left of the last launch, None where the log does not say; `why_unknown` says why then.

    meaning: of epoch_time, as the user chose; total_steps: the plan, where the log does not print it.
    """
    if not segments or not len(current_launch(segments)):
        return None
    segment = current_launch(segments)
    left = steps_left(segment, total_steps)
    over = done(segment, left)
    if over is not None:
        return Estimate(0, 0, 0, over)
    if ended(segments, left):
        return None
    estimate = None if left is None else _forecast(_same_run(segments, meaning), segment, left, meaning)
    if estimate is not None and left is not None:
        estimate = _under_an_assumption(estimate, segment, left, meaning)
    elif left is not None:
        estimate = _undecided(segment, left, meaning)
    estimate = estimate or _printed(segment, left)
    if estimate is not None and len(segment) < FEW_ROWS:
        estimate = replace(estimate, notes=(Text(FIRST, {"rows": len(segment)}), *estimate.notes))
    return _with_failures(estimate, failures) if estimate and failures else estimate


def why_unknown(segments: Sequence[Segment], *, meaning: str | None = None, total_steps: int | None = None) -> Text | None:
    """Say why there is no time left; None where there is one."""
    if not segments or not len(current_launch(segments)):
        return Text(N_("there is no training step yet"))
    if time_left(segments, meaning=meaning, total_steps=total_steps) is not None:
        return None
    segment = current_launch(segments)
    over = ended(segments, steps_left(segment, total_steps))
    if over is not None:
        return over
    known = epoch_time(segment, meaning)
    if known is not None and known.reading is None and pace(segment, meaning) is None:
        return known.text
    if pace(segment, meaning) is not None and steps_left(segment, total_steps) is None:
        return Text(N_("the log does not say how many steps are planned"))
    told = any(segment.has(name) for name in SOURCES if name not in ("time", "epoch_time_minutes"))
    if pace(segment, meaning) is None and not told:
        return no_time(segment)
    return Text(N_("only the first steps are known so far, and they hold the start-up"))


def no_time(segment: Segment) -> Text:
    """Say what a log that does not tell the time lacks."""
    return Text(UNCLEAR_TIME if segment.has("time") else ADD_A_FIELD)


def _same_run(segments: Sequence[Segment], meaning: str | None) -> list[Pace]:
    """Return the pace of the last launch, and of those before it with the same plan while it has few intervals."""
    current = current_launch(segments)
    found: list[Pace] = []
    for segment in reversed([s for s in segments if len(s) and s.number <= current.number]):
        if segment is not current and (
            sum(map(len, (p.wall for p in found))) >= FEW or segment.total_steps != current.total_steps
        ):
            break
        known = pace(segment, meaning)
        if known is not None:
            found.insert(0, known)
    return found


def _forecast(paces: list[Pace], segment: Segment, left: float, meaning: str | None) -> Estimate | None:
    """Return steps left × pace + pauses to come, as percentiles of DRAWS futures."""
    if not paces:
        return None
    steps, seconds, slow = (np.concatenate(parts) for parts in zip(*map(_spent, paces), strict=True))
    if not len(steps) or steps.sum() <= 0:
        return None
    slow = slow & _exception(slow)
    ongoing = _ongoing(slow)
    kept = ~slow
    random = np.random.default_rng(0)
    per_step = _pace_draws(steps[kept], seconds[kept], left, random)
    if paces[-1].wall.source == "epoch_time_minutes":
        undisturbed = len(paces) == 1 and not paces[-1].extra.any()
        per_step = per_step + _print_error(epoch_time(segment, meaning), per_step, undisturbed, random)
    pauses = _pause_draws(paces[-1], segment, left, random)
    base = left * float(np.median(per_step)) + float(np.median(pauses))
    over = float(seconds[slow].sum()) if not ongoing else 0.0
    notes, rest, lasts, returns = _notes(paces, over), np.zeros(DRAWS), None, None
    if ongoing:
        extra = float(seconds[-ongoing:].sum() / steps[-ongoing:].sum() - np.median(per_step))
        lasted = float(steps[-ongoing:].sum())
        again = lasted * (1 / np.maximum(random.random(DRAWS), 1e-9) - 1)  # as long again is the even bet
        rest = extra * np.minimum(again, left)
        lasts, returns = base + extra * left, base
        share = extra / float(np.median(per_step))
        notes = (Text(SLOW_NOW, {"share": share, "steps": int(lasted)}), *notes)
    draws = np.maximum(left * per_step + pauses + rest, 0)
    return replace(
        _percentiles(draws, paces[-1].wall.text), notes=(*notes, Text(NOT_COVERED)), if_lasts=lasts, if_returns=returns
    )


def _spent(known: Pace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return steps, seconds (hiccups included, starting up, pauses and outages not) and slowness of the intervals."""
    first = known.wall.opening & (np.arange(len(known.wall)) == 0)
    kept = ~first if (~first).any() or known.wall.source != "epoch_time_minutes" else np.ones(len(first), dtype=bool)
    seconds = known.running + np.where(known.kind == HICCUP, known.extra, 0.0)
    return known.wall.steps[kept], seconds[kept], known.slow[kept]


def _exception(slow: np.ndarray) -> bool:
    """Say whether being slow is an exception: one stretch, or little of the time. Else it is how the run is."""
    stretches = int(np.sum(np.diff(slow.view(np.int8), prepend=0) == 1))
    return not slow.all() and (stretches == 1 or float(np.mean(slow)) < 0.2)


def _ongoing(slow: np.ndarray) -> int:
    """Return how many intervals the slow stretch of now has lasted, 0 where there is none."""
    return len(slow) - 1 - int(np.flatnonzero(~slow)[-1]) if slow[-1] else 0


def _pace_draws(steps: np.ndarray, seconds: np.ndarray, left: float, random: np.random.Generator) -> np.ndarray:
    """Return possible mean seconds a step of the steps left (DRAWS,)."""
    count = int(np.clip(len(steps) // 2, 1, BLOCKS))
    edges = np.linspace(0, len(steps), count + 1).astype(int)[:-1]
    width = np.maximum(np.add.reduceat(steps, edges), 1e-9)
    block = np.add.reduceat(seconds, edges) / width
    mean = float(seconds.sum() / steps.sum())
    if count < 4:
        return mean * (1 + FEW_SPREAD / np.sqrt(len(steps)) * random.standard_normal(DRAWS))
    level, tied, drift = _level(block, mean, left / steps.sum())
    drawn = block[random.integers(0, count, (DRAWS, count))].mean(axis=1) - block.mean()
    ahead = max(count * left / steps.sum(), 1.0)
    chance = drawn * np.sqrt(tied * (1 + count / ahead))
    windows = np.array([part.mean() for part in np.array_split(block, min(WINDOWS, count // 2))])
    unknown = np.sqrt(windows.std(ddof=1) ** 2 + drift**2 + (FLOOR * mean) ** 2)
    return level + chance + unknown * random.standard_normal(DRAWS)


def _level(block: np.ndarray, mean: float, ahead: float) -> tuple[float, float, float]:
    """Return (seconds a step to go on with, how much neighbours being alike adds to its variance, what drift may add to it).

    The mean so far, the best forecast of a healthy run; where the pace clearly rises or falls, what it has come to. A trend
    is not carried on: that misses more often than it helps, so it widens the range instead. What is known of the trend is
    DRIFT before the run and what the blocks show; `ahead` is the future as a multiple of the past.
    """
    x = np.arange(len(block)) - (len(block) - 1) / 2
    slope = float(x @ block / (x @ x))
    rest = block - block.mean() - slope * x
    squares = float(rest @ rest)
    alike = float(np.clip(rest[1:] @ rest[:-1] / squares, 0, 0.9)) if squares > 0 else 0.0
    tied = (1 + alike) / (1 - alike)
    error = float(np.sqrt(squares / max(len(block) - 2, 1) / (x @ x) * tied))
    whole = len(block) * (1 + ahead)
    prior = DRIFT * mean / whole
    unseen = prior * error / float(np.hypot(prior, error)) if prior > 0 else 0.0
    clear = len(block) >= 12 and abs(slope) > TREND * error
    level = mean + slope * (len(block) - 1) / 2 if clear else mean
    return level, tied, unseen * whole / 2  # from the middle of the past to that of the future


def _pause_draws(known: Pace, segment: Segment, left: float, random: np.random.Generator) -> np.ndarray:
    """Return possible seconds of the pauses to come (DRAWS,)."""
    now = float(segment.steps()[-1])
    total = np.zeros(DRAWS)
    for habit in known.habits:
        count = habit.left(now + left, now)
        error = habit.spread * np.sqrt(count**2 / habit.seen + count)
        total += count * habit.seconds + error * random.standard_normal(DRAWS)
    return np.maximum(total, 0)


def _print_error(known: EpochTime | None, per_step: np.ndarray, undisturbed: bool, random: np.random.Generator) -> np.ndarray:
    """Return what the print of epoch_time leaves open (DRAWS,): its width, and what its fit over all lines says better."""
    if known is None or known.step_minutes is None:
        return np.zeros(DRAWS)
    low, middle, high = (60 * minutes for minutes in known.step_minutes)
    shift = middle - float(np.median(per_step)) if undisturbed else 0.0
    return shift + random.uniform(low - middle, high - middle, DRAWS)


def _notes(paces: list[Pace], slow: float) -> tuple[Text, ...]:
    """Say what is left out: outages, and seconds in slow stretches that are over."""
    outage = sum(known.seconds(kind) for known in paces for kind in (HANG, RESTART))
    notes = [note for known in paces for note in known.wall.notes]
    notes += [Text(OUTAGE, {"hours": outage / 3600})] if outage > 0 else []
    notes += [Text(PAST_SLOW, {"hours": slow / 3600})] if slow > 0 else []
    return tuple(notes)


def _percentiles(draws: np.ndarray, source: Text) -> Estimate:
    p5, p10, p50, p90, p95 = (float(value) for value in np.percentile(draws, QUANTILES))
    return Estimate(p10, p50, p90, source, p5, p95)


def _under_an_assumption(estimate: Estimate, segment: Segment, left: float, meaning: str | None) -> Estimate:
    """Return an estimate that names what epoch_time is taken for, and holds what the other possible meanings make of it."""
    known, clock = epoch_time(segment, meaning), pace(segment, meaning)
    if known is None or known.assumed is None or clock is None or clock.wall.source != "epoch_time_minutes":
        return estimate
    low, high = (60 * left * minutes for minutes in known.other_minutes or (np.inf, -np.inf))
    ends = {name: min(getattr(estimate, name), low) for name in ("p5", "p10")}
    ends |= {name: max(getattr(estimate, name), high) for name in ("p90", "p95")}
    return replace(estimate, **ends, source=known.text, notes=(Text(OTHERWISE), *estimate.notes))


def _undecided(segment: Segment, left: float, meaning: str | None) -> Estimate | None:
    """Return the span of what epoch_time may mean, while it is not decided and the readings are near each other."""
    known = epoch_time(segment, meaning)
    if known is None or known.reading is not None or "elapsed" in known.possible or known.other_minutes is None:
        return None
    low, high = (60 * left * minutes for minutes in known.other_minutes)
    source = Text(N_("epoch_time, read as what is left and as the whole: which it is can't be told yet"))
    return Estimate(0.9 * low, (low + high) / 2, 1.1 * high, source, 0.85 * low, 1.15 * high, (Text(NOT_COVERED),))


def _printed(segment: Segment, left: float | None) -> Estimate | None:
    """Remaining time as printed; its range from how much the pace that it implies has varied."""
    for name in ("remaining_seconds", "eta_seconds"):
        if not segment.has(name):
            continue
        values = segment.values(name)
        rows = np.flatnonzero((values >= 0) & (values < LONGEST))
        if not len(rows) or rows[-1] < len(values) - 50:
            continue
        now = float(values[rows[-1]])
        low, high = now, now
        if left and len(rows) >= 8:
            todo = left + segment.steps()[-1] - segment.steps()[rows]
            pace_now = values[rows[todo > 0]] / todo[todo > 0]
            lately = pace_now[len(pace_now) // 2 :]
            lately = lately[np.isfinite(lately)]  # a row may print no step
            low, high = (float(value) * left for value in np.percentile(lately, [10, 90])) if len(lately) else (now, now)
        low, high = min(low, now), max(high, now)
        text = Text(N_("remaining time as printed"))
        return Estimate(low, now, high, text, low, high, (Text(NOT_COVERED),))
    return None


def _with_failures(estimate: Estimate, failures: FailureRate) -> Estimate:
    """Add failures at the given rate: Poisson in number, each costing what was given."""
    random = np.random.default_rng(0)
    sd = max(estimate.p90 - estimate.p10, 0) / 2.563
    running = np.maximum(estimate.p50 + sd * random.standard_normal(DRAWS), 0)
    count = random.poisson(running / (3600 * max(failures.hours_between, 1e-3)))
    draws = running + count * 3600 * failures.hours_lost
    text = Text(FAILURES, {"hours": failures.hours_between, "lost": failures.hours_lost})
    notes = (*(note for note in estimate.notes if note.template != NOT_COVERED), text)
    return replace(
        _percentiles(draws, estimate.source), notes=notes, if_lasts=estimate.if_lasts, if_returns=estimate.if_returns
    )

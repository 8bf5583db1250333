"""What real logs of a folder with a MANIFEST.tsv say of time and cost: a part of bench/cost.py, which runs it."""

from pathlib import Path

import numpy as np

from analysis.epoch_time import epoch_time
from analysis.forecast import Forecast, forecast
from analysis.pace import pace
from analysis.running_mean import undone
from analysis.segment import Segment
from analysis.siblings import slow_siblings
from analysis.time_left import time_left
from server.service import to_segments
from storage.reader import read_file
from storage.types import UnreadableLog

SHARES = (0.1, 0.25, 0.5)
PARTS = 16  # of a launch, to tell its wander and its drift


def habits_of(segment: Segment) -> tuple[float, float, float] | None:
    """Return how much the pace of a launch jitters from row to row, wanders between its parts, and drifts to its end.

    Shares of its seconds a step; without extras (pauses, hangs, starting up). None where there are too few rows to tell.
    """
    known = pace(segment)
    if known is None or len(known.wall) < 6 * PARTS or known.wall.source == "epoch_time_minutes":
        return None
    steps, seconds = known.wall.steps, known.running
    if not (steps > 0).all():
        return None
    each = seconds / steps
    jitter = 1.4826 * float(np.median(np.abs(each - np.median(each)))) / float(np.median(each))
    parts = np.array_split(np.arange(len(steps)), PARTS)
    level = np.log([seconds[part].sum() / steps[part].sum() for part in parts])
    x = np.arange(PARTS) - (PARTS - 1) / 2
    slope = float(x @ level / (x @ x))
    return jitter, float((level - level.mean() - slope * x).std(ddof=2)), slope * PARTS


def paces(folder: Path) -> None:
    """Print jitter, wander and drift of real logs (the longest launch of each) beside those of the simulated habits."""
    found = []
    print("\npace of real logs (longest launch): jitter of a row, wander between 16 parts, drift from start to end")
    for path in sorted(folder.glob("[0-9]*")):
        try:
            known = habits_of(max(_segments(folder, path.name[:3]), key=len))
        except (UnreadableLog, ValueError):
            continue
        if known is not None:
            found.append(known)
            print(f"  {path.name[:3]}: {known[0]:6.1%} {known[1]:6.2%} {known[2]:+7.2%}")
    jitter, wander, drift = (np.median(np.abs(values)) for values in zip(*found, strict=True))
    print(
        f"  median: {jitter:.1%} {wander:.2%} {drift:.2%}; a normal drift with this median has a spread of {drift / 0.6745:.1%}"
    )


def show_habits(name: str, segments: list[Segment]) -> None:
    """Print the medians of jitter, wander and drift of several runs."""
    known = [found for segment in segments if (found := habits_of(segment)) is not None]
    jitter, wander, drift = (np.median(np.abs(values)) for values in zip(*known, strict=True))
    print(f"  {name:28} {jitter:6.1%} {wander:6.2%} {drift:7.2%}")


def real(folder: Path) -> None:
    """Print what real logs say: epoch_time, step × slope, siblings; our time left, theirs and the truth; final losses."""
    print("\nreal logs: epoch_time (minutes of an epoch: ours, step × slope)")
    seconds, plans = {}, {}
    for name in ("007", *map(str, range(300, 314)), "325"):
        segment = _segments(folder, name)[0]
        known, clock = epoch_time(segment), pace(segment)
        assert known is not None
        assert clock is not None
        seconds[name], plans[name] = float(clock.running.sum() / clock.wall.steps.sum()), segment.total_steps
        minutes, step = segment.values("epoch_time_minutes"), segment.steps()
        by_slope = np.median((minutes + 0.5) / (known.epoch_steps - step)) * known.epoch_steps
        said = known.meaning or f"not yet decidable, taken as {known.assumed}"
        ours = known.epoch_minutes[1] if known.epoch_minutes else None
        print(f"  {name}: {len(segment):3d} lines, {said}, {ours:8.1f} {by_slope:8.1f}")
    for name, sibling in slow_siblings(seconds, plans).items():
        print(f"  {name}: {sibling.text.render()}")
    print("\nreal logs that print their own time left: error at 10, 25, 50 % of the launch (ours, theirs)")
    for name, number in (("050", 0), ("055", 0), ("053", 1), ("053", 2), ("145", 0)):
        print(f"  {name} launch {number + 1}: " + "   ".join(_against(_segments(folder, name)[number])))
    print("\nfinal loss from the first 30, 50, 70 % of the rows (miss, interval as share, last value)")
    for name in ("020", "021", "133", "200", "033", "030", "006"):
        segment = max(_segments(folder, name), key=len)
        print(f"  {name}: " + "   ".join(_foretold(segment, share) for share in (0.3, 0.5, 0.7)))


def _segments(folder: Path, name: str) -> list[Segment]:
    result = read_file(next(iter(sorted(folder.glob(f"{name}-*")))))
    return to_segments(result.rows, result.events, dict(result.report.config))


def _against(segment: Segment) -> list[str]:
    """Return the errors of the time to the last row of a launch: ours with that row as the plan, theirs in proportion."""
    steps, elapsed, theirs = segment.steps(), segment.values("elapsed_seconds"), segment.values("remaining_seconds")
    known = np.flatnonzero(np.isfinite(steps) & np.isfinite(elapsed) & np.isfinite(theirs))
    steps, elapsed, theirs = steps[known], elapsed[known], theirs[known]
    begun, end, cells = steps[0], steps[-1], []
    for share in SHARES:
        row = int(np.searchsorted(steps, begun + share * (end - begun)))
        left = elapsed[-1] - elapsed[row]
        head = segment.head(int(known[row]) + 1)
        calm = Segment(head.number, head.rows, head.absent, head.evals, total_steps=head.total_steps)
        ours = time_left([calm], total_steps=int(end))
        printed = theirs[row] * (end - steps[row]) / max((segment.total_steps or end) - steps[row], 1)
        mine = f"{ours.p50 / left - 1:+6.1%}" if ours else "     –"
        cells.append(f"{mine} {printed / left - 1:+6.1%}")
    return cells


def _foretold(segment: Segment, share: float) -> str:
    loss = undone(segment, "loss")
    loss = loss[np.isfinite(loss)]
    end = float(np.median(loss[-max(len(loss) // 50, 3) :]))
    found = forecast(segment.head(int(share * len(segment))), total_steps=int(np.nanmax(segment.steps())))
    if not isinstance(found, Forecast):
        return found.render()[:40]
    held = "in" if found.low <= end <= found.high else "OUT"
    width = (found.high - found.low) / 2 / found.final
    return f"{found.final / end - 1:+.1%} (±{width:.1%}, {held}, last {found.now / end - 1:+.1%})"

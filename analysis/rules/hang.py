"""The log fell silent.

Meaning: Much more time passed without a line than this run ever took for a step or a pause. If lines came again, the time
is lost and training went on; if none came, the run most likely hangs: the processes are there, and nothing moves.

Causes: A collective operation that one process never joins, a rank or node that died or stalls, storage that does not answer
(checkpoint, data), or a dead lock in the data loader.

What to do: While it is silent, dump the stacks on each node: py-spy dump --pid PID (all threads: add --native), and read
NCCL's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1). Look for the rank whose stack
differs. Then restart from the last checkpoint, without that node.

Source: heartbeat limits of large training systems, scaled with the run's own rhythm; the source articles' five minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.attribution import explain
from analysis.ending import ending
from analysis.evidence import fact, finite, times, where
from analysis.findings import Finding, Severity
from analysis.intervals import LEAP
from analysis.pauses import spoken
from analysis.readings import MOST, blocks, median_of
from analysis.segment import Segment
from analysis.step_time import WARMUP_ROWS, clock, restarts
from messages import N_, Text

NEEDS = ("timestamp|elapsed_seconds|step_time_seconds",)
EXPLAINED = 4.0  # times the limit where the log shows an evaluation or a checkpoint in the gap
MOST_RANKS = 4096


@dataclass(frozen=True, eq=False)
class Gaps:
    """Seconds between the rows that tell the time: `rows` (m,) come after gaps of `seconds` (m,); `printed`: from step times,
    so a row holds its own gap."""

    rows: np.ndarray
    seconds: np.ndarray
    printed: bool


def check(
    segment: Segment, *, least_seconds: float = 300.0, usual_times: float = 15.0, longest_times: float = 2.0
) -> Iterator[Finding]:
    """Yield each silence that is longer than all of: least_seconds, usual_times the usual time between rows, longest_times
    the longest pause so far (a silence more than four times its limit is no pause to get used to). Evaluations and
    checkpoints that the log shows in a gap may take four times as long.
    """
    gaps = _gaps(segment)
    if gaps is None:
        return
    usual = _usual(np.r_[gaps.seconds, 0.0])
    longest, seen, shown = 0.0, 0, 0
    for at in map(int, np.flatnonzero(gaps.seconds > least_seconds)):
        longest = max(longest, float(np.max(gaps.seconds[seen:at], initial=0.0)))
        seen = at + 1
        limit = _limit(usual[at], longest, least_seconds, usual_times, longest_times)
        if gaps.seconds[at] > limit * _patience(segment, int(gaps.rows[at])) and shown < MOST:
            shown += 1
            yield _past(segment, gaps, at, limit)
        if gaps.seconds[at] <= EXPLAINED * limit:
            longest = max(longest, float(gaps.seconds[at]))
    longest = max(longest, float(np.max(gaps.seconds[seen:], initial=0.0)))
    yield from _now(segment, _limit(usual[-1], longest, least_seconds, usual_times, longest_times))
    yield from _silent_ranks(segment, least_seconds, usual_times, longest_times)


def check_articles(segment: Segment, *, least_seconds: float = 300.0) -> Iterator[Finding]:
    """Yield each silence of more than least_seconds, whatever the run's own rhythm, of the run and of each of its processes."""
    gaps = _gaps(segment)
    if gaps is None:
        return
    for at in np.flatnonzero(gaps.seconds > least_seconds)[:MOST]:
        yield _past(segment, gaps, int(at), least_seconds)
    yield from _now(segment, least_seconds)
    yield from _silent_ranks(segment, least_seconds, 0.0, 0.0)


def _gaps(segment: Segment) -> Gaps | None:
    """Return the gaps of a launch without those of its first rows (compilation), of restarts, and of a clock that was set
    (longer than LEAP, as for the ledger); worked out once."""
    return segment.once("gaps", lambda: _all_gaps(segment))


def _all_gaps(segment: Segment) -> Gaps | None:
    known = clock(segment)
    if known is not None:
        rows = np.flatnonzero(np.isfinite(known[1]))
        seconds, after = np.diff(known[1][rows]), rows[1:]
    elif segment.has("step_time_seconds"):
        each = segment.values("step_time_seconds")
        after = np.flatnonzero(np.isfinite(each))
        steps = np.diff(segment.steps(), prepend=np.nan)[after]
        seconds = each[after] * np.where(steps > 1, steps, 1.0)
    else:
        return None
    keep = (after >= WARMUP_ROWS) & ~np.isin(after, restarts(segment)) & np.isfinite(seconds) & (seconds <= LEAP)
    return Gaps(after[keep], np.maximum(seconds[keep], 0.0), known is None)


def _usual(seconds: np.ndarray) -> np.ndarray:
    """Return the usual gap before each gap (m,): the median of blocks of five, of all before it while they are few."""
    early = [np.median(seconds[:count]) if count >= 2 else np.inf for count in range(min(len(seconds), 15))]
    late = np.repeat(np.r_[np.nan, median_of(blocks(seconds), 51, 1)], 5)[: len(seconds)]
    late = np.r_[late, np.full(len(seconds) - len(late), late[-1] if len(late) else np.nan)]
    late[: len(early)] = early
    return late


def _limit(usual: float, longest: float, least: float, usual_times: float, longest_times: float) -> float:
    return float(max(least, usual_times * usual, longest_times * longest))


def _patience(segment: Segment, row: int) -> float:
    return EXPLAINED if spoken(segment, row) else 1.0


def _past(segment: Segment, gaps: Gaps, at: int, limit: float) -> Finding:
    row = int(gaps.rows[at])
    before = row if gaps.printed else int(gaps.rows[at - 1]) if at else max(row - 1, 0)
    seconds = float(gaps.seconds[at])
    values = {"minutes": seconds / 60, "step": where(segment, before)}
    title = Text(N_("Nothing was logged for {minutes:,.0f} min after {step}; then it went on"), values)
    return _finding(segment, Severity.WARNING, title, (before, row, row), seconds, limit)


def _now(segment: Segment, limit: float) -> Iterator[Finding]:
    """The silence of a run that is being watched, up to this moment."""
    silent, last = segment.silent_seconds, len(segment) - 1
    if silent is None or last < 0 or not silent > limit or not np.isfinite(silent) or ending([segment]):
        return
    step = segment.step(last)
    if step is not None and segment.total_steps is not None and step >= segment.total_steps:
        return
    values = {"minutes": silent / 60, "step": where(segment, last)}
    title = Text(N_("Nothing has been logged for {minutes:,.0f} min since {step}: the run seems to hang"), values)
    yield _finding(segment, Severity.CRITICAL, title, (last, last, None), float(silent), limit)


def _finding(
    segment: Segment, severity: Severity, title: Text, rows: tuple[int, int, int | None], seconds: float, limit: float
) -> Finding:
    first, known, end = rows
    causes, advice = explain(segment, "hang", first, known=known)
    return Finding(
        kind="hang",
        severity=severity,
        segment=segment.number,
        first_step=segment.step(first),
        last_step=None if end is None else segment.step(end),
        known_step=segment.step(known),
        first_line=segment.line(first),
        last_line=segment.line(known),
        title=finite(title),
        evidence=(
            fact(N_("silence"), seconds, segment=segment, row=first, unit="s"),
            fact(N_("longest silence that is normal here"), limit, unit="s"),
        ),
        causes=causes,
        advice=advice,
    )


def _silent_ranks(segment: Segment, least: float, usual_times: float, longest_times: float) -> Iterator[Finding]:
    """Processes that stop printing while others go on."""
    ranks = segment.ranks
    if not {"rank", "timestamp", "line"} <= set(ranks.columns):
        return
    seconds = pd.Series(ranks["timestamp"].to_numpy(dtype="datetime64[ms]").astype(np.int64) / 1000, index=ranks["rank"])
    seconds = seconds[ranks["timestamp"].notna().to_numpy()]
    for rank, own in list(seconds.groupby(level=0))[:MOST_RANKS]:
        times_of = own.to_numpy()
        gaps = np.diff(times_of)
        limit = _limit(
            float(np.median(gaps)) if len(gaps) else np.inf,
            float(gaps[WARMUP_ROWS:].max(initial=0.0)),
            least,
            usual_times,
            longest_times,
        )
        quiet = float(seconds.max() - times_of[-1])
        if len(gaps) >= 2 and quiet > limit:
            yield _rank(segment, int(rank), float(times_of[-1]), quiet, limit)


def _rank(segment: Segment, rank: int, last: float, quiet: float, limit: float) -> Finding:
    clock_of = clock(segment)
    seconds = clock_of[1] if clock_of else np.zeros(len(segment))
    first = max(int(np.searchsorted(seconds, last, side="right")) - 1, 0)
    known = min(int(np.searchsorted(seconds, last + limit, side="right")), len(segment) - 1)
    values = {"rank": rank, "minutes": times(quiet, 60), "step": where(segment, first)}
    title = Text(N_("Rank {rank} has logged nothing for {minutes:,.0f} min since {step}, the others go on"), values)
    return _finding(segment, Severity.CRITICAL, title, (first, known, None), quiet, limit)


def sick() -> Segment:
    """Return a run that falls silent for longer than ever before."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=600, seed=7, fault="hang").segment


def well() -> Segment:
    """Return a run with checkpoint pauses of several minutes."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=7, kind="long_pauses").segment

"""Steps take longer than they did.

Meaning: For some time the median step has been slower than the best that this run has shown under the same conditions
(same launch, same batch size), by more than its own fluctuations. Everything still works, but each step costs more time and
money. Single slow steps and regular pauses do not count. Falling throughput is the same finding seen from the other side.

Causes: A data loader that can't keep up, a throttling GPU (heat or power), one slow node or rank that the others wait for,
a busy network or file system, memory pressure, checkpoint writing that never ends, or longer sequences.

What to do: See whether utilisation, temperature, data time or one rank changed at that step. Restart on other nodes if one
is slow; give the loader more workers, pin_memory and pre-tokenised data if the GPUs wait for data.

Source: fail-slow studies of large clusters (a tenth slower is worth an alarm); criterion: medians of 30 rows against the
best median of 300 rows in this launch.
"""

from collections.abc import Iterator

import numpy as np

from analysis.drift import Rise, rises
from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.readings import Readings, finding, readings
from analysis.segment import Segment
from analysis.step_time import StepTime, step_time, stretches
from messages import N_, Text

NEEDS = (
    "step_time_seconds|elapsed_seconds|timestamp|tokens_per_second|samples_per_second|steps_per_second|time|epoch_time_minutes",
)
STEADY_THROUGHPUT = 0.97
LEAST_ROWS = 15
TOGETHER = 4  # rows in one value from which on it needs no median of five


def check(
    segment: Segment,
    *,
    slower: float = 0.06,
    fluctuations: float = 5.0,
    hold_blocks: int = 4,
    data_ratio: float = 1.5,
    data_share: float = 0.1,
) -> Iterator[Finding]:
    """Yield each stretch in which steps are slower than before.

    slower: least rise of the median step as a share; fluctuations: how many times the usual wandering of that median.
    hold_blocks: blocks of five rows (single rows where they are steady) for which it must hold.
    data_ratio, data_share: rise of the time spent waiting for data, and its least share of the step, that count alone.
    """
    known = step_time(segment)
    shown = []
    if known is not None:
        for start, stop in stretches(known):
            if stop - start < LEAST_ROWS:
                continue
            part = known.series.values[start:stop]
            x, least, single = np.log(part), float(np.log1p(slower)), known.together >= TOGETHER
            for rise in rises(x, least=least, fluctuations=fluctuations, hold=hold_blocks, single=single):
                shown.append(rise)
                yield from _finding(segment, known, start, stop, rise)
    if not shown:
        yield from _waiting(segment, known, data_ratio, data_share)


def _finding(segment: Segment, known: StepTime, start: int, stop: int, rise: Rise) -> Iterator[Finding]:
    series, first, at, end = known.series, rise.first, rise.known, rise.end
    part = series.values[start:stop]
    usual = float(np.exp(rise.usual))
    now = float(np.median(part[first : len(part) if end is None else end + 1]))
    if _throughput_held(segment, series, start + first, start + at):
        return
    if end is None and stop < len(series):
        end = stop - start - 1
    gaps = {"ratio": times(now, usual), "step": series.where(start + first)}
    title = Text(N_("Steps take {ratio:.3g}× as long since {step}"), gaps)
    if end is not None:
        gaps["end"] = series.where(start + end)
        title = Text(N_("Steps took {ratio:.3g}× as long from {step} to {end}"), gaps)
    evidence = [
        series.fact(N_("step time before"), usual, start + max(first - 1, 0), _unit(known)),
        series.fact(N_("step time since"), now, start + at, _unit(known)),
        series.fact(N_("taken from"), str(known.text.template)),
    ]
    if known.exact and end is None:
        lost = float(np.sum(part[first:] - usual)) * _covered(series, start + first)
        evidence.append(series.fact(N_("time lost so far"), max(lost, 0.0), None, "s"))
    last = None if end is None else start + end
    yield finding("slowdown", Severity.WARNING, series, title, tuple(evidence), first=start + first, known=start + at, end=last)


def _unit(known: StepTime) -> str:
    return "s" if known.exact else ""


def _covered(series: Readings, first: int) -> float:
    """Return how many steps lie between two rows around a position."""
    gaps = np.diff(series.steps()[max(first - 50, 0) : first + 50])
    gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
    return float(np.median(gaps)) if len(gaps) else 1.0


def _throughput_held(segment: Segment, series: Readings, first: int, at: int) -> bool:
    """Say whether as many tokens or samples a second were done as before: then each step does more work."""
    for name in ("tokens_per_second", "samples_per_second"):
        if segment.has(name) and series.column != name:
            rate = segment.values(name)
            old = rate[max(series.row(first) - 100, 0) : series.row(first)]
            new = rate[series.row(first) : series.row(at) + 1]
            old, new = old[np.isfinite(old)], new[np.isfinite(new)]
            if len(old) >= 5 and len(new) >= 5:
                return bool(np.median(new) > STEADY_THROUGHPUT * np.median(old))
    return False


def _waiting(segment: Segment, known: StepTime | None, ratio: float, share: float) -> Iterator[Finding]:
    """Time spent waiting for data, where the log prints it: it may grow while the step hides it for a while."""
    for series in readings(segment, "data_time_seconds"):
        step = float(np.median(known.series.values)) if known is not None and known.exact else None
        if step is None or len(series) < LEAST_ROWS or not np.all(series.values > 0):
            continue
        for rise in rises(np.log(series.values), least=np.log(ratio), fluctuations=8.0):
            first, at, end = rise.first, rise.known, rise.end
            usual, now = float(np.exp(rise.usual)), float(np.median(series.values[first : at + 1]))
            if now < share * step:
                continue
            gaps = {"ratio": times(now, usual), "step": series.where(first), "part": times(now, step)}
            title = Text(N_("Waiting for data takes {ratio:.3g}× as long since {step}: {part:.0%} of a step"), gaps)
            evidence = (
                series.fact(N_("waiting for data before"), usual, max(first - 1, 0), "s"),
                series.fact(N_("waiting for data since"), now, at, "s"),
            )
            yield finding("slowdown", Severity.WARNING, series, title, evidence, first=first, known=at, end=end)


def sick() -> Segment:
    """Return a run whose steps become a tenth slower."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=4, fault="slowdown").segment


def well() -> Segment:
    """Return a run with checkpoint pauses and slow single steps, whose usual step stays as fast as it was."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=4, kind="checkpoints").segment

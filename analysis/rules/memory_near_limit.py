"""GPU memory is nearly full.

Meaning: Almost all of the installed memory is in use, reading after reading. The next longer sample, evaluation or checkpoint
may not fit, and the run ends with "out of memory". A tenth should stay free.

Causes: Batch or sequence length chosen to the limit, memory that grows (a leak), fragmentation, or another process on the GPU.
Frameworks that keep freed memory to themselves show a high but steady level: that is less urgent than a growing one.

What to do: In this order: smaller batch with more gradient accumulation, mixed precision, LoRA or QLoRA for fine-tuning, free
the cache. For pretraining: shorten max_seq_len first, then batch and accumulation, and only at last the model itself, because
that changes what is trained.

Source: the ten percent reserve of common practice; criterion: 18 of 20 readings.
"""

from collections.abc import Iterator

import numpy as np

from analysis.findings import Finding, Severity
from analysis.hardware import bands, few_of, memory_shares, most_of
from analysis.readings import Readings, finding, held
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("memory_bytes|memory_peak_bytes", "memory_total_bytes")
OF, MOST_OF, FEW_OF = 20, 18, 5
GROWN = 0.01  # of the installed memory, since the first readings: more is a level that grows


def check(segment: Segment, *, warn_share: float = 0.9, critical_share: float = 0.95) -> Iterator[Finding]:
    """Yield each stretch in which memory is nearly full.

    warn_share: of the installed memory, passed by 18 of 20 readings; critical_share: likewise, where the level has grown.
    """
    for column in ("memory_bytes", "memory_peak_bytes"):
        found = [
            _finding(series, place, total, critical_share)
            for series, total in memory_shares(segment, column)
            for place in held(
                most_of(_above(series, warn_share), MOST_OF, OF), few_of(_above(series, warn_share), FEW_OF, OF), 1
            )
        ]
        yield from found
        if found:
            return


def check_articles(segment: Segment, *, warn_share: float = 0.9) -> Iterator[Finding]:
    """Yield the readings above warn_share of the installed memory (36 of 40 GB are still good)."""
    text = N_("More than {limit:.0%} of the GPU memory in use in {count:,} of {all:,} readings, first at {step}")
    for column in ("memory_bytes", "memory_peak_bytes"):
        found = [
            item
            for series, _ in memory_shares(segment, column)
            for item in bands(
                "memory_near_limit", Severity.WARNING, series, _above(series, warn_share), warn_share, text, unit=""
            )
        ]
        yield from found
        if found:
            return


def _above(series: Readings, share: float) -> np.ndarray:
    return series.values > share * (1 + 1e-12)


def _finding(series: Readings, place: tuple[int, int, int | None], total: float, critical: float) -> Finding:
    known, _, end = place
    start = max(known - OF + 1, 0)
    first = start + int(np.argmax(_above(series, 0.9)[start : known + 1]))
    level = float(np.median(series.values[max((len(series) if end is None else end) - OF, first) : end]))
    grown = level - float(np.median(series.values[:OF]))
    growing = grown > GROWN
    severity = Severity.CRITICAL if level > critical and growing and end is None else Severity.WARNING
    gaps = {"share": level, "step": series.where(first), "free": (1 - level) * total / 2**30}
    title = Text(N_("{share:.1%} of the GPU memory is in use since {step}: {free:.1f} GiB are free"), gaps)
    if end is not None:
        gaps["end"] = series.where(end)
        title = Text(N_("{share:.1%} of the GPU memory was in use from {step} to {end}"), gaps)
    evidence = (
        series.fact(N_("memory in use"), round(level * total / 2**30, 2), known, "GiB"),
        series.fact(N_("memory installed"), round(total / 2**30, 2), None, "GiB"),
        series.fact(N_("growth since the first readings, share of the installed memory"), f"{grown:+.1%}"),
    )
    return finding("memory_near_limit", severity, series, title, evidence, first=first, known=known, end=end)


def sick() -> Segment:
    """Return a run whose memory jumps to the limit."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=500, seed=2, fault="memory_near_limit").segment


def well() -> Segment:
    """Return a run that uses 89 % of its memory throughout."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=500, seed=2, kind="full").segment

"""Several processes train on the same data.

Meaning: Ranks print the same loss to the last digit, step after step. Either each of them reads the same batches, so that
all but one work for nothing, or the log prints the mean over all ranks, and then this comparison can't be made.

Causes: A data loader without a distributed sampler, a sampler that is not told rank and world size, or the same random seed
where each rank shuffles on its own.

What to do: Print the loss before it is averaged over the ranks, or the first sample ids of each rank. Use a
DistributedSampler (set_epoch each epoch), shard the files by rank, and give every rank its own seed.

Source: rank comparison of the source articles; criterion: 18 of 20 steps.
"""

from collections.abc import Iterator

import numpy as np

from analysis.findings import Finding, Severity
from analysis.hardware import few_of, most_of
from analysis.ranks import Ranks, ranks
from analysis.readings import held
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("rank", "loss|logits_loss")
OF, MOST_OF, FEW_OF = 20, 18, 5
COMPARED = 16  # ranks that are compared each with each


def check(segment: Segment, *, steps: int = 18) -> Iterator[Finding]:
    """Yield each stretch in which ranks print the same loss in at least `steps` of 20 steps."""
    table = ranks(segment)
    if table is None:
        return
    losses = table.losses[:, :COMPARED]
    same = np.zeros(losses.shape, dtype=bool)
    for column in range(1, losses.shape[1]):
        equal = losses[:, :column] == losses[:, column : column + 1]
        same[:, column] = equal.any(axis=1)
        same[:, :column] |= equal
    any_same = same.any(axis=1) & _moves(table.series.values)
    for known, _, end in held(most_of(any_same, steps, OF), few_of(any_same, FEW_OF, OF), 1):
        start = max(known - OF + 1, 0)
        yield _finding(table, same, start + int(np.argmax(any_same[start : known + 1])), known, end)


def _moves(values: np.ndarray) -> np.ndarray:
    """Say where a loss differs from the step before (m,): a constant loss tells nothing about data."""
    return np.diff(values, prepend=np.nan) != 0


def _finding(table: Ranks, same: np.ndarray, first: int, known: int, end: int | None) -> Finding:
    alike = table.numbers[: same.shape[1]][same[first : known + 1].mean(axis=0) > 0.5]
    from_start = first <= 1
    gaps = {"ranks": ", ".join(str(int(number)) for number in alike[:8]), "step": table.series.where(first)}
    title = Text(N_("Ranks {ranks} print the same loss since {step}: do they train on the same data?"), gaps)
    if end is not None:
        gaps["end"] = table.series.where(end)
        title = Text(N_("Ranks {ranks} printed the same loss from {step} to {end}"), gaps)
    steps = (len(same) if end is None else end) - first
    evidence = (
        table.series.fact(N_("ranks compared"), same.shape[1]),
        table.series.fact(N_("ranks with the same loss"), len(alike), known),
        table.series.fact(N_("steps"), steps),
        table.series.fact(N_("loss at that step"), float(table.losses[known, 0]), known),
    )
    critical = end is None and not (from_start and len(alike) == same.shape[1])
    severity = Severity.CRITICAL if critical else Severity.WARNING
    return table.finding("rank_duplicate", severity, title, evidence, (first, known, end))


def sick() -> Segment:
    """Return a run whose ranks begin to train on the same data."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=600, seed=4, kind="ranks", fault="rank_duplicate").segment


def well() -> Segment:
    """Return a run of four ranks with data of their own."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=600, seed=4, kind="ranks").segment

"""Causes of ranks that drift apart or do the same: what speaks for each, and what to do about it."""

import re

import numpy as np

from analysis.attribution import Clue
from analysis.clues import Seen, resumed
from analysis.ranks import ranks
from analysis.segment import Segment
from messages import N_, Text

APART = ("rank_divergence",)
SAME = ("rank_duplicate",)
SEED_OF_RANK = re.compile(r"rank[_ .:\[-]?(\d{1,6}).*seed|seed.*rank[_ .:\[-]?(\d{1,6})", re.I)


def seeds(segment: Segment) -> dict[int, str]:
    """Return the random seed of each rank as far as the configuration names them by rank."""
    found = ((SEED_OF_RANK.search(str(key)), value) for key, value in segment.config.items())
    return {int(match[1] or match[2]): str(value) for match, value in found if match}


def same_seeds(segment: Segment, row: int, known: int) -> Seen | None:
    known_seeds = seeds(segment)
    if len(known_seeds) < 2:
        return None
    if len(set(known_seeds.values())) < len(known_seeds):
        return Seen(True, Text(N_("several ranks have the same seed ({seed})"), {"seed": next(iter(known_seeds.values()))}))
    return Seen(False, Text(N_("every rank has a seed of its own")))


def all_equal_from_start(segment: Segment, row: int, known: int) -> Seen | None:
    table = ranks(segment)
    if table is None:
        return None
    first = table.losses[: min(len(table.losses), 20)]
    equal = bool(np.all(first == first[:, :1]))
    return Seen(equal, Text(N_("all ranks print the same from the first step on, as a mean over all ranks would")))


def suddenly(segment: Segment, row: int, known: int) -> Seen | None:
    """One rank left the others within a few steps, not slowly."""
    table = ranks(segment)
    if table is None or not np.all(table.losses > 0):
        return None
    at = int(np.searchsorted(table.known, row))
    apart = np.abs(np.log(table.losses) - np.log(table.series.values)[:, None])
    old, new = apart[max(at - 50, 0) : at], apart[at : at + 10]
    if len(old) < 10 or len(new) < 3:
        return None
    rank = int(np.argmax(np.median(apart[at:], axis=0)))
    jump = float(np.median(new[:, rank]) - np.median(old[:, rank]))
    return Seen(jump > 0.02, Text(N_("it left the others within ten steps")))


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sampler": (
        N_("The data is not divided among the ranks"),
        (N_("Use a DistributedSampler with rank and world size (set_epoch each epoch), or shard the files by rank."),),
    ),
    "seed": (
        N_("The ranks shuffle with the same seed"),
        (N_("Give each rank its own seed: seed + rank."),),
    ),
    "averaged": (
        N_("The log prints the mean over all ranks: nothing is wrong, and this comparison can't be made"),
        (N_("Print the loss of each rank before it is averaged, at least for the first steps."),),
    ),
    "synchronisation": (
        N_("Gradients or optimizer state are no longer synchronised"),
        (N_("Compare a checksum of the weights over the ranks; restart from the last checkpoint if they differ."),),
    ),
    "device": (
        N_("That device computes wrongly (silent data corruption) or its rank reads other data"),
        (N_("Run the same batches on another device; have that one checked."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "rank_divergence": (N_("Compare a checksum of the weights over the ranks."),),
    "rank_duplicate": (N_("Print the loss before it is averaged, or the sample ids of each rank."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(SAME, "sampler", 3, (), resumed, against=False),
    Clue(SAME, "seed", 3, (), same_seeds),
    Clue(SAME, "averaged", 2, ("rank",), all_equal_from_start),
    Clue(APART, "device", 2, ("rank",), suddenly, against=False),
    Clue(APART, "synchronisation", 2, (), resumed, against=False),
)

USUAL: dict[str, tuple[str, ...]] = {
    "rank_divergence": ("synchronisation", "device"),
    "rank_duplicate": ("sampler", "seed", "averaged"),
}

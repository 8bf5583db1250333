"""Which checkpoints to keep: the last few all, of the older ones a sample that thins out with age, and the best one."""

from collections.abc import Sequence
from dataclasses import dataclass

from messages import N_, Text


@dataclass(frozen=True)
class Policy:
    """Steps of checkpoints to keep and to delete, both rising, and why in words."""

    keep: tuple[int, ...]
    delete: tuple[int, ...]
    text: Text


def checkpoint_policy(steps: Sequence[int], *, last: int = 5, every: int | None = None, best: int | None = None) -> Policy:
    """Return which of the checkpoints at `steps` to keep.

    last: how many of the newest are all kept; every: steps between the older ones that are kept (None: they thin out, each
    about twice as far from the end as the one after it); best: a step that is kept in any case, as is the first.
    Raises ValueError for a negative `last` or an `every` that is not positive.
    """
    if last < 0 or (every is not None and every <= 0):
        raise ValueError("last can't be negative, every must be positive")
    known = sorted(set(steps))
    newest, older = known[len(known) - last :] if last else [], known[: len(known) - last]
    kept = set(newest) | ({older[0]} if older else set()) | ({best} if best in known else set())
    kept |= _spaced(older, every) if every else _thinned(older, known[-1] if known else 0)
    words = {"last": min(last, len(known)), "kept": len(kept), "all": len(known)}
    text = Text(N_("keep {kept} of {all} checkpoints: the last {last}, the first, and a sample of those between"), words)
    return Policy(tuple(step for step in known if step in kept), tuple(step for step in known if step not in kept), text)


def _spaced(older: Sequence[int], every: int) -> set[int]:
    """Return checkpoints that lie at least `every` steps apart, from the first on."""
    kept: list[int] = []
    for step in older:
        if not kept or step - kept[-1] >= every:
            kept.append(step)
    return set(kept)


def _thinned(older: Sequence[int], end: int) -> set[int]:
    """Return checkpoints whose distance to the end at least doubles from one to the one before it."""
    kept: list[int] = []
    for step in reversed(older):
        if not kept or end - step >= 2 * (end - kept[-1]):
            kept.append(step)
    return set(kept)

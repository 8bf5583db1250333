"""Which run takes far longer for a step than the others, for the work that a step of it is.

A step of a larger model, of longer sequences or on fewer GPUs takes longer: as far as all logs say how large they are, that is
allowed for; what not all say is told with the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.compare.conditions import Said, amount, kinds
from analysis.compare.state import State, whole
from analysis.compare.subject import Subject, by_program
from messages import N_, Text, listed

SLOW = 3.0  # times the usual time
DECISIVE = ("parameters", "effective_batch")  # without them nobody knows whether a step is slow or large
SLOW_FOR = N_("{run} is slow: for what it computes, a step takes {ratio}× as long as usual among these runs ({seconds} s)")
LONG = N_("{run}: a step takes {ratio}× as long as usual among these runs ({seconds} s)")
NOT_SAID = N_("{said}; not all logs say what may explain it: {missing}")


@dataclass(frozen=True)
class _Work:
    """What a step of each run is (n,), ones where not all logs say it; missing: names of the conditions that are not said."""

    parameters: np.ndarray
    sequence: np.ndarray
    gpus: np.ndarray
    effective_batch: np.ndarray
    missing: tuple[str, ...]


def slow_steps(subjects: Sequence[Subject], said: Sequence[Mapping[str, Said]], names: Sequence[str]) -> list[State]:
    """Return runs (code `slow_step`) whose steps take more than SLOW times what the others of their program let expect."""
    groups = by_program(subjects)
    parts = [([subjects[n] for n in group], [said[n] for n in group], [names[n] for n in group]) for group in groups]
    return [state for part in parts for state in _slow(*part)]


def _slow(subjects: Sequence[Subject], said: Sequence[Mapping[str, Said]], names: Sequence[str]) -> list[State]:
    """Return the same among runs of one program."""
    seconds = np.array([one.step_seconds[1] if one.step_seconds else np.nan for one in subjects])
    work = _work(subjects, said)
    found = []
    for n, (one, name) in enumerate(zip(subjects, names, strict=True)):
        others = np.isfinite(seconds) & (np.arange(len(seconds)) != n)
        if not np.isfinite(seconds[n]) or not others.any():
            continue
        ratio = float(np.median(_ratios(seconds, work, n)[others]))
        if ratio > SLOW:
            found.append(State("slow_step", one.id, None, _sentence(name, ratio, float(seconds[n]), work.missing)))
    return found


def _ratios(seconds: np.ndarray, work: _Work, n: int) -> np.ndarray:
    """Return the time of a run over that which each of the runs (n,) lets expect.

    For the same data small batches take more steps. A larger model may take longer, but a smaller one need not be quicker:
    it may not fill a GPU.
    """
    same_data = seconds[n] / work.effective_batch[n] / (seconds / work.effective_batch)
    larger = work.parameters[n] / work.parameters * work.sequence[n] / work.sequence * work.gpus / work.gpus[n]
    return np.asarray(same_data / np.maximum(larger, 1.0))


def _work(subjects: Sequence[Subject], said: Sequence[Mapping[str, Said]]) -> _Work:
    sizes = {name: _sizes(said, name) for name in ("parameters", "effective_batch", "sequence", "gpus")}
    if sizes["effective_batch"] is None:  # on the same data, steps an epoch go with one over the batch
        steps = _sizes(said, "steps_per_epoch")
        sizes["effective_batch"] = None if steps is None else 1 / steps
    ones = np.ones(len(subjects))
    missing = tuple(name for name, values in sizes.items() if values is None)
    return _Work(**{name: ones if values is None else values for name, values in sizes.items()}, missing=missing)


def _sizes(said: Sequence[Mapping[str, Said]], name: str) -> np.ndarray | None:
    """Return a condition of each run as a number (n,), None where not all say it."""
    found = [amount(one[name].value) if name in one else None for one in said]
    return np.array(found, dtype=float) if all(value and value > 0 for value in found) else None


def _sentence(name: str, ratio: float, seconds: float, missing: Sequence[str]) -> Text:
    known = not set(missing) & set(DECISIVE)
    gaps = {"run": name, "ratio": whole(ratio), "seconds": float(f"{seconds:.4g}")}
    text = Text(SLOW_FOR if known else LONG, gaps)
    titles = listed(Text(kinds()[one].title) for one in missing)
    return Text(NOT_SAID, {"said": text, "missing": titles}) if missing else text

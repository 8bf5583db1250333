"""What epoch_time is said to mean in logs of three kinds, and whether nobody could have said more: a part of bench/cost.py.

A log that is left undecided is given to a search that knows nothing of `analysis`: it looks for a run of another meaning that
prints the very same digits, of constant pace but for its start-up, or as unsteady as is allowed, and prints it to compare.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.epoch_time import WANDER, epoch_time, spare
from analysis.segment import Segment
from analysis.simulate_time import FAULTS, HABITS, TimedRun, timed
from analysis.steady import MOST_STARTUP

KINDS = ("remaining", "remaining, two floors", "elapsed", "total", "total, estimated")
OTHERS = {"remaining": ("elapsed", "total"), "elapsed": ("remaining", "total"), "total": ("remaining", "elapsed")}
UNSTEADY = (0.0, 0.005, 0.01, 0.015, 0.03, 0.05, 0.1, 0.15, 0.25, 0.5)
SIZES = (1, 2, 3, 5, 10, 100)
LONGEST = 30 * 24 * 60.0  # minutes of an epoch that is simulated
SHARES = (0.05, 0.2, 0.5, 1.0)  # of an epoch that the lines cover
COVERING = "3 lines or more, over {:.0%} of an epoch"
Answers = Counter[tuple[str, int, str]]


@dataclass(frozen=True, eq=False)
class Log:
    """A log of values (m,) at steps done (m,) of an epoch of `size`, as printed in units of `unit` minutes."""

    values: np.ndarray
    done: np.ndarray
    size: int
    unit: float

    @property
    def segment(self) -> Segment:
        """The log as the reader gives it, in the form of MiniMind."""
        place = {"step": self.done, "step_printed": self.done, "epoch": 1.0, "steps_per_epoch": self.size, "epochs": 1.0}
        frame = pd.DataFrame(place | {"lr": 1e-3, "line": np.arange(1, len(self.done) + 1)}).astype(float)
        return Segment(0, frame.assign(epoch_time_minutes=self.values), total_steps=self.size)


def shown(kind: str, passed: np.ndarray, done: np.ndarray, size: int, form: str, unit: float) -> np.ndarray:
    """Return what a script prints (m,) that has done so many steps in so many minutes; form: floor, round or two floors."""
    whole = passed / done * size
    if form == "two floors":
        return np.asarray(np.floor(whole) - np.floor(passed))
    value = {"remaining": whole - passed, "elapsed": passed, "total": whole}[kind]
    return np.asarray(np.floor(value / unit) * unit if form == "floor" else np.round(value / unit) * unit)


def logs(count: int, *, faulty: bool = False) -> Iterator[tuple[str, Log]]:
    """Yield `count` logs of each kind, of 1 line to 100, at 5 to 100 % of the epoch; faulty: of runs that hang or slow down."""
    random = np.random.default_rng(7)
    for number in range(count):
        habit, plan = str(random.choice(list(HABITS))), int(random.choice([1000, 4000]))
        lines, share = int(random.choice(SIZES)), float(random.choice(SHARES))
        unit, scale = float(random.choice([1.0, 0.1])), float(random.choice([5, 30, 120]))
        fault = str(random.choice([name for name in FAULTS if name != "restart"])) if faulty else None
        run = timed(plan=plan, seed=number, habit=habit, fault=fault, at=share * float(random.uniform(0.2, 0.8)))
        scale = min(scale, LONGEST * 60 / float(run.launches[0].ends[-1]))
        for kind in KINDS:
            if unit == 1.0 or "floors" not in kind:
                yield kind, _log(run, kind, lines, share, unit, scale)


def _log(run: TimedRun, kind: str, lines: int, share: float, unit: float, scale: float) -> Log:
    launch, size = run.launches[0], run.plan
    rows = np.unique(np.maximum(np.linspace(size * share / lines, size * share, lines).astype(int), 1)) - 1
    done, passed = launch.steps[rows].astype(float), launch.ends[rows] * scale / 60
    form = "round" if unit < 1 else "two floors" if "floors" in kind else "floor"
    if kind == "total":  # known before it has passed
        passed = launch.ends[-1] * scale / 60 * done / size
    values = shown(kind.split(",")[0], passed, done, size, form, unit)
    return Log(values, done - 1 if form == "two floors" else done, size, unit)  # that one counts its steps from 0


def ask(count: int, *, faulty: bool = False, explain: bool = True) -> tuple[Answers, Counter[tuple[str, str]]]:
    """Return answers by kind and number of lines (0: as COVERING says), and what else prints the digits of undecided logs.

    That is asked of those of 3 lines or more.
    """
    answers: Answers = Counter()
    why: Counter[tuple[str, str]] = Counter()
    for kind, log in logs(count, faulty=faulty):
        truth, known = kind.split(",")[0], epoch_time(log.segment)
        assert known is not None
        lines = max(size for size in SIZES if size <= len(log.done))
        said = "undecided" if known.meaning is None else "right" if known.meaning == truth else "WRONG"
        answers[kind, lines, said] += 1
        if lines >= 3:
            covers = min(SHARES, key=lambda share: abs(share - log.done[-1] / log.size))
            answers[COVERING.format(covers), 0, said] += 1
        if known.assumed:
            answers[kind, lines, f"assumed, {'right' if known.assumed == truth else 'otherwise'}"] += 1
        if known.meaning is None and lines >= 3 and explain:
            why[kind, explanation(log, truth)] += 1
    return answers, why


def explanation(log: Log, truth: str) -> str:
    """Return how unsteady a run of another meaning must be that prints the same digits; own: how unsteady the true one is."""
    own = next((limit for limit in UNSTEADY if prints_the_same(log, truth, limit + 1e-4)), UNSTEADY[-1])
    limits = {
        "constant pace": 0.0,
        f"pace within {WANDER:.1%}": WANDER,
        "one slow stretch or pause": spare(len(log.done)),
        "as unsteady as the true run": 2 * own + spare(len(log.done)),
    }
    for name, limit in limits.items():
        if any(prints_the_same(log, other, limit + 1e-4) for other in OTHERS[truth]):
            return name
    return "NOTHING FOUND"


def prints_the_same(log: Log, kind: str, limit: float) -> bool:
    """Say whether some run of a kind prints the same digits, its mean pace within `limit` but for its start-up."""
    forms = ["round"] if log.unit < 1 else ["floor", "round"] + (["two floors"] if kind == "remaining" else [])
    counts = (log.done, log.done + 1) if log.done[0] < 100 else (log.done,)
    return any(
        _found(replace(log, done=np.maximum(done, 0.5)), kind, form, limit, earlier)
        for done in counts
        for form in forms
        for earlier in ((False, True) if form == "two floors" else (False,))
    )


def _found(log: Log, kind: str, form: str, limit: float, earlier: bool) -> bool:
    """Try every corner of the bounds in (start-up, pace): if any run fits, one through two of the corners does."""
    low, high = _bounds(log, kind, form, earlier)
    if (low > high).any():
        return False
    slow, fast = log.done * (1 + limit), log.done * (1 - limit)
    x, y = np.r_[slow, fast, 0.0, -MOST_STARTUP * log.size], np.r_[low, high, 0.0, 0.0]
    first, second = np.triu_indices(len(x), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = (y[second] - y[first]) / (x[second] - x[first])
        startup = y[first] - pace * x[first]
    likely = np.isfinite(pace) & (pace > 0) & (startup >= -1e-9) & (startup <= MOST_STARTUP * log.size * pace * (1 + 1e-9))
    for at in np.array_split(np.flatnonzero(likely), max(int(likely.sum()) // 5000, 1)):
        least, most = startup[at, None] + pace[at, None] * fast, startup[at, None] + pace[at, None] * slow
        slack = 1e-9 * np.abs(high)
        fits = np.flatnonzero(((most >= low - slack) & (least <= high + slack)).all(axis=1))
        for one in fits[:3]:
            middle = np.clip((np.maximum(least[one], low) + np.minimum(most[one], high)) / 2, low, high)
            if np.allclose(shown(kind, middle, log.done, log.size, form, log.unit), log.values, rtol=0, atol=log.unit / 100):
                return True
    return False


def _bounds(log: Log, kind: str, form: str, earlier: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return between which minutes passed (m,) the values are printed; of two floors, the earlier or the later whole minute."""
    share = np.minimum(log.done / log.size, 1.0)
    if form == "two floors":
        passed = np.floor(np.maximum(log.values * share / np.maximum(1 - share, 1e-9) - (1e-9 if not earlier else 1), 0))
        low, high = np.maximum(passed, (passed + log.values) * share), np.minimum(passed + 1, (passed + log.values + 1) * share)
    else:
        each = {"remaining": share / np.maximum(1 - share, 1e-9), "elapsed": np.ones(len(share)), "total": share}[kind]
        cell = (0.0, 1.0) if form == "floor" else (-0.5, 0.5)
        low, high = (np.maximum(log.values + at * log.unit, 0) * each for at in cell)
    edge = 1e-6 * np.maximum(high - low, 0)
    return low + edge, high - edge


def show(answers: Answers, why: Counter[tuple[str, str]]) -> None:
    """Print both as tables."""
    words = ("right", "WRONG", "undecided", "assumed, right", "assumed, otherwise")
    print(f"{'':24}{'lines':>6}" + "".join(f"{word:>20}" for word in words))
    for kind in (*KINDS, "all"):
        for lines in SIZES:
            cells = [
                sum(n for (k, size, told), n in answers.items() if kind in (k, "all") and size == lines and told == word)
                for word in words
            ]
            print(
                f"{kind if lines == 1 else '':24}{lines if lines < 100 else 'more':>6}"
                + "".join(f"{cell:20}" for cell in cells)
            )
    for share in SHARES:
        cells = [answers[COVERING.format(share), 0, word] for word in words[:3]]
        print(f"{COVERING.format(share):50}" + "".join(f"{cell:5} {word}" for cell, word in zip(cells, words, strict=False)))
    print("undecided logs of 3 lines or more: a run of another meaning that prints the same digits")
    for name in sorted({name for _kind, name in why}):
        cells = ", ".join(f"{kind} {why[kind, name]}" for kind in KINDS if why[kind, name])
        print(f"  {name:28} {sum(n for (_k, other), n in why.items() if other == name):5d}   {cells}")

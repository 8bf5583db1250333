"""Simulated runs on a clock, with the truth about where the time went: what forecasts and ledgers are measured against.

A step takes its steady time, times jitter, times a slow wander of the whole job; now and then something else interferes for
a moment. The first step compiles. Evaluations and checkpoints pause the run. Faults: it hangs, it is restarted from a
checkpoint, or it runs slower for a while.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.simulate import simulate


@dataclass(frozen=True)
class Habit:
    """How a healthy run spends its time.

    step_s: steady seconds a step; jitter, wander: standard deviations of the logarithm, of a step and of the whole job;
    wander_rows: steps over which the wander forgets; hiccups: share of steps hit, each 2 to 8 times a step.
    compile_s: what the first step takes longer; every, pause_s: checkpoints come after this share of the plan each (0 =
    none), and how long they pause it; evals, eval_s: the same for evaluations. growth: by how much the pace falls to the end.
    """

    step_s: float = 0.4
    jitter: float = 0.04
    wander: float = 0.01
    wander_rows: int = 300
    hiccups: float = 0.0005
    compile_s: float = 20.0
    every: float = 0.0
    pause_s: float = 0.0
    evals: float = 0.0
    eval_s: float = 0.0
    growth: float = 0.0


HABITS: dict[str, Habit] = {
    "steady": Habit(),
    "fast": Habit(step_s=0.05, jitter=0.08),
    "slow_steps": Habit(step_s=6.0, compile_s=120),
    "noisy": Habit(jitter=0.25, hiccups=0.003),
    "wandering": Habit(wander=0.03, wander_rows=1500),
    "checkpoints": Habit(every=0.04, pause_s=6),
    "evaluations": Habit(evals=0.02, eval_s=3),
    "both": Habit(every=0.05, pause_s=8, evals=0.01, eval_s=2),
    "rare_checkpoints": Habit(every=0.25, pause_s=25),
    "hiccups": Habit(hiccups=0.01),
    "compiled": Habit(compile_s=400),
    "slowly_slower": Habit(growth=0.04),
}


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch: the steps it did (m,), the second at which each ended (m,), seconds printed as step time (m,), and the
    second at which it started; evaluated, saved: steps after which it evaluated, saved a checkpoint."""

    steps: np.ndarray
    ends: np.ndarray
    step_s: np.ndarray
    start: float
    evaluated: frozenset[int] = frozenset()
    saved: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class TimedRun:
    """A run of `plan` steps, its launches and the truth: seconds by part of the ledger, and the curves that it prints."""

    plan: int
    launches: tuple[Launch, ...]
    truth: dict[str, float]
    loss: np.ndarray
    lr: np.ndarray
    grad_norm: np.ndarray
    labels: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Return the seconds from the first start to the end of the last step."""
        return float(self.launches[-1].ends[-1] - self.launches[0].start)

    def until(self, share: float) -> "TimedRun":
        """Return the run as it was when `share` of the planned steps was first done."""
        step = max(int(self.plan * share), 1)
        kept = []
        for launch in self.launches:
            here = int(np.searchsorted(launch.steps, step, side="right"))
            if here:
                kept.append(replace(launch, steps=launch.steps[:here], ends=launch.ends[:here], step_s=launch.step_s[:here]))
            if launch.steps[-1] >= step:
                break
        return replace(self, launches=tuple(kept))


def timed(*, plan: int = 4000, seed: int = 0, habit: str = "steady", fault: str | None = None, at: float = 0.35) -> TimedRun:
    """Return a run of `plan` steps, the same for the same arguments; `at` is the fault's place as share of the plan."""
    rng = np.random.default_rng([seed, plan, sum(map(ord, habit + (fault or "")))])
    kind = HABITS[habit]
    step_s, truth = _steps(kind, plan, rng)
    curves = simulate(rows=plan, seed=seed).segment
    pauses = np.zeros(plan)
    evaluated, saved = _pauses(kind, plan, rng, pauses)
    truth["pauses"] = float(pauses.sum())
    run = TimedRun(plan, (), truth, curves.values("loss"), curves.values("lr"), curves.values("grad_norm"))
    if fault:
        return FAULTS[fault](run, kind, step_s, pauses, (evaluated, saved), rng, int(at * plan))
    return _whole(run, kind, step_s, pauses, (evaluated, saved))


def _steps(kind: Habit, plan: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, float]]:
    keep = 1 - 1 / kind.wander_rows
    noise = rng.standard_normal(plan) * np.sqrt(1 - keep**2)
    noise[0] = rng.standard_normal()
    wander = kind.wander * np.frompyfunc(lambda past, new: keep * past + new, 2, 1).accumulate(noise.astype(object))
    level = kind.step_s * np.exp(wander.astype(float)) * np.linspace(1, 1 + kind.growth, plan)
    step_s = level * np.exp(kind.jitter * rng.standard_normal(plan))
    hit = rng.random(plan) < kind.hiccups
    extra = np.where(hit, level * rng.uniform(1, 7, plan), 0.0)
    return step_s + extra, {"hiccups": float(extra.sum())}


def _pauses(kind: Habit, plan: int, rng: np.random.Generator, pauses: np.ndarray) -> tuple[frozenset[int], frozenset[int]]:
    found = []
    for every, seconds in ((kind.evals, kind.eval_s), (kind.every, kind.pause_s)):
        apart = max(int(round(every * plan, -1)), 10)
        steps = np.arange(apart, plan, apart) if every else np.arange(0)
        pauses[steps - 1] += seconds * np.exp(0.1 * rng.standard_normal(len(steps)))
        found.append(frozenset(steps.tolist()))
    return found[0], found[1]


Pair = tuple[frozenset[int], frozenset[int]]


def _launch(kind: Habit, first: int, step_s: np.ndarray, pauses: np.ndarray, start: float, marks: Pair) -> Launch:
    """Return a launch whose first step is `first` (from 1); a pause comes after its step, so before the next one ends."""
    spent = step_s.copy()
    spent[0] += kind.compile_s
    ends = start + np.cumsum(spent) + np.concatenate(([0.0], np.cumsum(pauses)[:-1]))
    return Launch(first + np.arange(len(step_s)), ends, spent, start, *marks)


def _whole(run: TimedRun, kind: Habit, step_s: np.ndarray, pauses: np.ndarray, marks: Pair) -> TimedRun:
    launch = _launch(kind, 1, step_s, pauses, 0.0, marks)
    return replace(run, launches=(launch,), truth=run.truth | {"start_up": kind.compile_s})


def _hang(
    run: TimedRun, kind: Habit, step_s: np.ndarray, pauses: np.ndarray, marks: Pair, rng: np.random.Generator, at: int
) -> TimedRun:
    seconds = float(rng.uniform(0.1, 0.5) * step_s.sum() + 600)
    held = pauses.copy()
    held[at] += seconds
    whole = _whole(run, kind, step_s, held, marks)
    return replace(whole, truth=whole.truth | {"hang": seconds})


def _slow(
    run: TimedRun, kind: Habit, step_s: np.ndarray, pauses: np.ndarray, marks: Pair, rng: np.random.Generator, at: int
) -> TimedRun:
    last = at + int(rng.uniform(0.1, 0.3) * run.plan)
    factor = float(rng.uniform(1.3, 2.0))
    slower = step_s.copy()
    slower[at:last] *= factor
    lost = float(slower.sum() - step_s.sum())
    whole = _whole(run, kind, slower, pauses, marks)
    return replace(whole, truth=whole.truth | {"slow": lost}, labels={"first": at, "last": last, "factor": factor})


def _restart(
    run: TimedRun, kind: Habit, step_s: np.ndarray, pauses: np.ndarray, marks: Pair, rng: np.random.Generator, at: int
) -> TimedRun:
    """Stop at a step, start again from the checkpoint before it (at most a twentieth of the run earlier)."""
    back = max(at - int(rng.uniform(0.01, 0.05) * run.plan), 1)
    dead = float(rng.uniform(120, 3600))
    one = _launch(kind, 1, step_s[:at], pauses[:at], 0.0, marks)
    again = step_s[back:] * np.exp(0.02 * rng.standard_normal(len(step_s) - back))
    two = _launch(kind, back + 1, again, pauses[back:], float(one.ends[-1]) + dead, marks)
    lost = float(one.ends[-1] - one.ends[back - 1])
    truth = run.truth | {"start_up": 2 * kind.compile_s, "dead_gaps": dead, "lost_steps": lost}
    return replace(run, launches=(one, two), truth=truth)


Fault = Callable[[TimedRun, Habit, np.ndarray, np.ndarray, Pair, np.random.Generator, int], TimedRun]
FAULTS: dict[str, Fault] = {"hang": _hang, "slow": _slow, "restart": _restart}

"""The loss at the end of the plan, from the loss so far: a power law of the steps, with its interval, refused while too early.

L = floor + A t^-a on 120 block medians, the first 15 % left out (they bend the law), later blocks weighing more, single wild
blocks weighing less. Where the learning-rate schedule is recognised and falls, its annealing is a term of its own:
L = floor + A S1^-a - C S2, S1 the area under the rate so far, S2 the annealed area (Tissue et al. 2024). The interval is
chance (blocks drawn again) and the error of such laws on real runs, which shrinks as the run goes on.
"""

from dataclasses import dataclass

import numpy as np

from analysis.losses import loss_kind
from analysis.running_mean import undone
from analysis.schedule import Schedule, schedule
from analysis.segment import Segment
from messages import N_, Text

BLOCKS, LEAST_BLOCKS = 120, 12
SKIPPED = 0.15  # share of the rows so far
EARLY = 0.1  # progress below which nothing is said
POWERS = np.geomspace(0.03, 1.5, 40)
KEPT = 0.999  # of the annealing momentum a step: a fall of the rate acts over about 1,000 steps
GRID = 2000
MODEL_ERROR, LEAST_ERROR = 0.03, 0.025  # relative: at half the run, and at its end; from real runs, see docs/cost.md
WIDEST = 0.6  # of the interval over the forecast: beyond it nothing is said
DRAWS = 200


@dataclass(frozen=True)
class Forecast:
    """The loss to come.

    column: which loss; final: its level at the end of the plan with (low, high), 9 times in 10; now: its level now.
    annealed: the learning-rate schedule is part of the law; text: the law in words. progress: share of the plan that is done.
    """

    column: str
    final: float
    low: float
    high: float
    now: float
    annealed: bool
    progress: float
    text: Text

    def gain_per_gpu_hour(self, gpu_hours_left: float | None) -> float | None:
        """Return by how much the loss is expected to fall with each further GPU-hour, None where these are not known."""
        return (self.now - self.final) / gpu_hours_left if gpu_hours_left and gpu_hours_left > 0 else None


def forecast(segment: Segment, *, total_steps: int | None = None) -> Forecast | Text:
    """Return the forecast of the main loss, or why there is none; total_steps: the plan, where the log does not say it."""
    kind = loss_kind(segment)
    total = total_steps or segment.total_steps
    reason = _refused(segment, kind.main, kind.problem, total)
    if reason is not None or kind.main is None or total is None:
        return reason or Text(N_("the log prints no loss"))
    steps, loss = _finite(segment, kind.main)
    progress = float(steps[-1] / total)
    blocks = _blocks(steps, loss)
    curve = _areas(segment, total, blocks[0], schedule(segment))
    fit = _fit(*blocks, *curve)
    if fit is None:
        return Text(N_("the loss does not follow a falling power law, so its end can't be foretold"))
    now = float(np.median(loss[-max(len(loss) // 50, 3) :]))
    draws = _draws(*blocks, *curve, fit)
    error = max(MODEL_ERROR * (1 - progress) / progress, LEAST_ERROR) * abs(fit.final)
    low, high = (float(value) for value in np.percentile(draws, [5, 95]))
    annealed = bool(curve[1].any())
    low, high = fit.final - np.hypot(fit.final - low, error), fit.final + np.hypot(high - fit.final, error)
    if fit.final <= 0 or high - low > WIDEST * fit.final:
        return Text(N_("the loss so far fits too many ends to name one"))
    return Forecast(kind.main, fit.final, max(float(low), 0.0), float(high), now, annealed, progress, _words(fit, annealed))


@dataclass(frozen=True, eq=False)
class _Fit:
    """power and (floor, A, C); final: the loss at the end; fitted: at the blocks (k,); cost: what is left of the blocks."""

    power: float
    terms: np.ndarray
    final: float
    fitted: np.ndarray
    cost: float


def _refused(segment: Segment, main: str | None, problem: Text | None, total: int | None) -> Text | None:
    if main is None:
        return Text(N_("the log prints no loss"))
    if problem is not None:
        return problem
    if total is None or not segment.has("step"):
        return Text(N_("the log does not say how many steps are planned"))
    steps, loss = _finite(segment, main)
    if len(steps) < 4 * LEAST_BLOCKS:
        gaps = {"rows": len(steps), "needed": 4 * LEAST_BLOCKS}
        return Text(N_("too few rows with a loss: {rows}, it takes {needed}"), gaps)
    if not EARLY <= steps[-1] / total <= 1:
        shares = {"share": float(steps[-1] / total), "needed": EARLY}
        return Text(
            N_("{share:.0%} of the plan is done: a forecast takes {needed:.0%} at least, and not more than all"), shares
        )
    known = schedule(segment)
    if known is not None and known.shape == "warmup":
        return Text(N_("the learning rate is still warming up: the law of the loss begins after it"))
    quarter = len(loss) // 4
    if np.median(loss[-quarter:]) > np.median(loss[-2 * quarter : -quarter]) * 1.02:
        return Text(N_("the loss has been rising: its law does not hold"))
    return None


def _finite(segment: Segment, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and finite losses, in the order of the steps; of a step done twice the later loss."""
    loss, steps = undone(segment, column), segment.steps()
    keep = np.flatnonzero(np.isfinite(loss) & np.isfinite(steps) & (steps >= 0))
    order = keep[np.argsort(steps[keep], kind="stable")]
    last = np.r_[np.diff(steps[order]) > 0, True] if len(order) else np.zeros(0, dtype=bool)
    return steps[order[last]], loss[order[last]]


def _blocks(steps: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean step and the median loss of up to BLOCKS blocks (k,) of equal size, the first rows left out."""
    first = int(SKIPPED * len(loss))
    count = min(BLOCKS, (len(loss) - first) // 3)
    edges = np.linspace(first, len(loss), count + 1).astype(int)
    pairs = zip(edges[:-1], edges[1:], strict=True)
    parts = [(float(steps[a:b].mean()), float(np.median(loss[a:b]))) for a, b in pairs]
    return np.array([step for step, _ in parts]), np.array([level for _, level in parts])


def _areas(segment: Segment, total: int, at: np.ndarray, known: Schedule | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (area under the learning rate, annealed area) at the blocks and at the end (k + 1,), in steps at peak rate.

    Where the schedule is not recognised or does not fall: the steps, and zeros.
    """
    places = np.r_[at, float(total)]
    grid = np.linspace(0, total, GRID)
    rate = _rate(segment, total, grid, known) if known is not None else None
    if rate is None:
        return places + 1, np.zeros(len(places))
    width = total / (GRID - 1)
    area = np.cumsum(rate) * width
    falls, carried, momentum = np.maximum(-np.diff(rate, prepend=rate[0]), 0), np.zeros(GRID), 0.0
    keep = KEPT**width
    for place, fall in enumerate(falls):
        momentum = keep * momentum + fall
        carried[place] = momentum
    annealed = np.cumsum(carried) * width
    return np.asarray(np.interp(places, grid, area)) + 1, np.asarray(np.interp(places, grid, annealed))


def _rate(segment: Segment, total: int, grid: np.ndarray, known: Schedule) -> np.ndarray | None:
    """Return the learning rate over its peak on the grid: as printed, then as its shape goes on; None where not known."""
    lr, steps = segment.values("lr"), segment.steps()
    rows = np.flatnonzero(np.isfinite(lr) & (lr >= 0) & np.isfinite(steps))
    if known.shape not in ("cosine", "linear") or known.decay_start is None or not len(rows):
        return None
    end = float(known.decay_end or total)
    end = float(total) if abs(end - total) < 0.1 * total else end
    steps, lr = steps[rows], lr[rows] / known.peak
    late = steps > known.decay_start
    if late.sum() < 8 or end <= known.decay_start:
        return None
    shape = _shape(known.shape, (steps[late] - known.decay_start) / (end - known.decay_start))
    matrix = np.column_stack([np.ones(len(shape)), shape])
    (low, height), *_ = np.linalg.lstsq(matrix, lr[late], rcond=None)
    ahead = low + height * _shape(known.shape, (grid - known.decay_start) / (end - known.decay_start))
    return np.where(grid <= steps[-1], np.interp(grid, steps, lr), np.clip(ahead, 0, 1))


def _shape(name: str, share: np.ndarray) -> np.ndarray:
    share = np.clip(share, 0, 1)
    return 1 - share if name == "linear" else (1 + np.cos(np.pi * share)) / 2


def _fit(at: np.ndarray, loss: np.ndarray, area: np.ndarray, annealed: np.ndarray) -> _Fit | None:
    """Fit for each power the linear rest, robustly, and keep the best whose terms have the right sign."""
    weight = np.sqrt(at + 1) / np.sqrt(at + 1).mean()
    found = [_linear(power, loss, area, annealed, weight) for power in POWERS]
    return min((fit for fit in found if fit is not None), key=lambda fit: fit.cost, default=None)


def _linear(power: float, loss: np.ndarray, area: np.ndarray, annealed: np.ndarray, weight: np.ndarray) -> _Fit | None:
    columns = [np.ones(len(area)), area**-power] + ([-annealed / annealed.max()] if annealed.any() else [])
    matrix = np.column_stack(columns)
    past, robust = matrix[:-1], weight.copy()
    terms = np.zeros(matrix.shape[1])
    for _ in range(6):
        root = np.sqrt(robust)
        terms = np.linalg.lstsq(past * root[:, None], loss * root, rcond=None)[0]
        rest = loss - past @ terms
        scale = 1.4826 * float(np.median(np.abs(rest))) + 1e-9
        robust = weight / np.sqrt(1 + (rest / scale) ** 2)
    if terms[0] < 0 or terms[1] <= 0 or (len(terms) > 2 and terms[2] < 0):
        return None
    cost = float(np.sum(weight * (np.sqrt(1 + (rest / (0.01 * np.median(loss) + 1e-12)) ** 2) - 1)))
    return _Fit(power, terms, float(matrix[-1] @ terms), past @ terms, cost)


def _draws(at: np.ndarray, loss: np.ndarray, area: np.ndarray, annealed: np.ndarray, fit: _Fit) -> np.ndarray:
    """Return final losses of the same law, fitted to blocks whose misses are drawn again; near powers are tried too."""
    random = np.random.default_rng(0)
    weight = np.sqrt(at + 1) / np.sqrt(at + 1).mean()
    rest = loss - fit.fitted
    near = np.argmin(np.abs(POWERS - fit.power)) + np.array([-4, -2, 0, 2, 4])
    near = near[(near >= 0) & (near < len(POWERS))]
    finals = []
    for power in POWERS[near]:
        columns = [np.ones(len(area)), area**-power] + ([-annealed / annealed.max()] if annealed.any() else [])
        matrix = np.column_stack(columns)
        solve = np.linalg.pinv(matrix[:-1] * np.sqrt(weight)[:, None])
        drawn = fit.fitted[:, None] + rest[random.integers(0, len(rest), (len(rest), DRAWS))]
        terms = solve @ (drawn * np.sqrt(weight)[:, None])
        cost = float(np.sum(weight * (loss - matrix[:-1] @ terms.mean(axis=1)) ** 2))
        finals.append((cost, matrix[-1] @ terms))
    best = min(cost for cost, _ in finals)
    return np.concatenate([final for cost, final in finals if cost <= 1.1 * best + 1e-12])


def _words(fit: _Fit, annealed: bool) -> Text:
    gaps = {"floor": float(fit.terms[0]), "power": float(fit.power)}
    if annealed:
        return Text(
            N_("power law {power:.2g} of the area under the learning rate, with its annealing, towards {floor:.3g}"), gaps
        )
    return Text(N_("power law {power:.2g} of the steps towards {floor:.3g}; a fall of the learning rate is not in it"), gaps)

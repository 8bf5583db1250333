"""How like a good run is this one: robust features, the three nearest golden runs, and in which features it differs most.

A run is a row of features that need no reference: noise, extremes, gains of each doubling of rows, the gradients, the step
time, the shape. Distances are taken in robust standard deviations of the golden runs, over the features that both have.
Compared is only within a profile (pretraining, fine-tuning, reinforcement learning). What no such picture of a whole run
shows (an oscillation, parts that do not add up) the rules find; the score is no verdict.

Source: nearest neighbours over such features told faulty simulated runs from healthy ones better than comparing shapes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.losses import is_reinforcement, loss_kind
from analysis.noise import TO_SIGMA, track
from analysis.segment import Segment
from messages import N_, Text

FEWEST_GOLDEN = 10
FEWEST_ROWS = 100
FEWEST_FEATURES = 6
FEWEST_WITH = 5  # golden runs that a feature must be known of
NEIGHBOURS = 3
MOST_ROWS = 50_000  # looked at; of a longer run every so many-th row
POINTS = 60  # of a shape
POWER = 6  # of the mean of deviations: one feature far off is not made up for by twenty that are as usual
FROM_SCRATCH = 4.5  # a first loss above is that of a model that knows nothing yet
PROFILES = {
    "pretraining": N_("pretraining"),
    "fine_tuning": N_("fine-tuning"),
    "reinforcement": N_("reinforcement learning"),
}
FEATURES = {
    "noise": N_("noise of the loss"),
    "highest": N_("highest jump of the loss, in its noise"),
    "lowest": N_("deepest drop of the loss, in its noise"),
    "upward": N_("way that the loss went up, over its fall"),
    "gain_last": N_("fall in the last doubling of rows"),
    "gain_before": N_("fall in the doubling before"),
    "gain_early": N_("fall in the doubling before that"),
    "shape_half": N_("what was left to fall half-way"),
    "shape_late": N_("what was left to fall at nine tenths"),
    "not_finite": N_("share of losses that are zero or no number"),
    "gradient_spread": N_("spread of the gradient norm"),
    "gradient_highest": N_("highest gradient norm over the usual one"),
    "gradient_lowest": N_("usual gradient norm over the lowest"),
    "gradient_end": N_("gradient norm at the end over half-way"),
    "step_spread": N_("spread of the step time"),
    "step_drift": N_("step time at the end over the start"),
    "step_highest": N_("longest step over the usual one"),
    "rate_jump": N_("largest jump of the learning rate"),
    "rate_zero": N_("share of rows without a learning rate above zero"),
    "memory_growth": N_("GPU memory at the end over the start"),
    "utilisation_drop": N_("GPU utilisation at the end over the start"),
    "temperature_rise": N_("rise of the GPU temperature"),
    "parts": N_("share of rows in which the losses do not add up"),
}
LEAST = {  # scales below which golden runs do not differ: a tenth of what would matter
    "not_finite": 1e-4,
    "parts": 5e-3,
    "rate_jump": 0.1,
    "rate_zero": 5e-3,
    "memory_growth": 0.01,
    "utilisation_drop": 0.02,
    "temperature_rise": 2.0,
    "gain_last": 0.01,
    "gain_before": 0.01,
    "gain_early": 0.01,
    "step_spread": 0.01,
    "step_drift": 0.01,
}
MACHINE = {
    "memory_growth": "memory_bytes",
    "utilisation_drop": "gpu_utilization_percent",
    "temperature_rise": "gpu_temperature_celsius",
}
MOST_DEVIATIONS = 12.0  # beyond, a feature is as far away as can be


SHARES = ("not_finite", "rate_zero", "parts", "shape_half", "shape_late")
RATIOS = (
    "gradient_highest",
    "gradient_lowest",
    "gradient_end",
    "step_drift",
    "step_highest",
    "rate_jump",
    "memory_growth",
    "utilisation_drop",
)


def shown(name: str, value: float) -> str:
    """Return a feature as people read it: most are kept as logarithms."""
    if name == "noise":
        return f"{100 * 10**value:.2g} %"
    if name in ("highest", "lowest"):
        return f"{np.expm1(value):.3g} sd"
    if name == "temperature_rise":
        return f"{value:+.1f} °C"
    if name == "upward":
        return f"{np.expm1(value):.2g}×"
    if name in RATIOS:
        return f"{np.exp(min(value, 50.0)):.3g}×"
    return f"{100 * (value if name in SHARES else np.expm1(min(value, 50.0))):.2g} %"


@dataclass(frozen=True)
class Case:
    """A run in the library. features: by name, those that its log tells; shape: loss at POINTS shares of its rows.

    kind: the class of what was wrong with it, empty for a golden one; title: English message that names it, or a run's name.
    simulated: it ships with the product; else `run` is its id.
    """

    title: str
    profile: str
    features: Mapping[str, float]
    shape: tuple[float, ...]
    kind: str = ""
    simulated: bool = False
    run: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "title": self.title,
            "profile": self.profile,
            "features": {name: round(value, 5) for name, value in self.features.items()},
            "shape": [round(value, 4) for value in self.shape],
            "kind": self.kind,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, simulated: bool = False, run: str = "") -> "Case":
        """Read back what `to_dict` wrote; features that are not known any more are left out."""
        features = {name: float(value) for name, value in data["features"].items() if name in FEATURES}
        return cls(data["title"], data["profile"], features, tuple(data["shape"]), data.get("kind", ""), simulated, run)


@dataclass(frozen=True)
class Difference:
    """A feature in which a run differs from the golden ones: its value, their median, how many robust deviations apart."""

    name: str
    value: float
    usual: float
    deviations: float

    def text(self, count: int) -> Text:
        """Return the difference in words; `count`: golden runs."""
        above = N_("{feature}: {value}, {deviations:.1f} standard deviations above {count} golden runs ({usual})")
        below = N_("{feature}: {value}, {deviations:.1f} standard deviations below {count} golden runs ({usual})")
        gaps = {"feature": Text(FEATURES[self.name]), "value": shown(self.name, self.value), "count": count}
        gaps |= {"usual": shown(self.name, self.usual), "deviations": abs(self.deviations)}
        return Text(above if self.deviations >= 0 else below, gaps)


@dataclass(frozen=True)
class Near:
    """A case and how far away it is, in standard deviations a feature."""

    case: Case
    distance: float


@dataclass(frozen=True)
class Comparison:
    """A run beside the golden ones of its profile.

    score: 100 as near as they are to each other, 50 twice as far, and so on down; limit: distance that nineteen of twenty
    golden runs keep; distance: mean of the three nearest. differences: the largest first. near, failures: nearest cases.
    """

    score: int
    distance: float
    limit: float
    count: int
    differences: tuple[Difference, ...]
    near: tuple[Near, ...]
    failures: tuple[Near, ...]

    @property
    def unlike(self) -> bool:
        """Whether a person should look at it."""
        return self.distance > self.limit


def case_of(segment: Segment, title: str, *, kind: str = "") -> Case | Text:
    """Return a launch as a case, or why that can't be."""
    main = loss_kind(segment).main
    segment = thinned(segment)
    rows = np.isfinite(segment.values(main)).sum() if main else 0
    if rows < FEWEST_ROWS:
        return Text(N_("It has {rows:,} rows with a loss; {needed} are needed to compare it."), _gaps(rows, FEWEST_ROWS))
    with np.errstate(all="ignore"):
        found = {name: float(value) for name, value in _features(segment, main or "loss").items() if np.isfinite(value)}
        return Case(title, profile_of(segment), found, shape_of(segment, main or "loss"), kind)


def _gaps(rows: int, needed: int) -> dict[str, Any]:
    return {"rows": int(rows), "needed": needed}


def profile_of(segment: Segment) -> str:
    """Return what kind of training a launch is, as far as its losses show."""
    if is_reinforcement(segment):
        return "reinforcement"
    first = segment.values(loss_kind(segment).main or "loss")[:50]
    first = first[np.isfinite(first)]
    return "pretraining" if len(first) and float(np.median(first[:10])) > FROM_SCRATCH else "fine_tuning"


def thinned(segment: Segment) -> Segment:
    """Return a launch of at most MOST_ROWS rows: every so many-th of a longer one."""
    every = -(-len(segment) // MOST_ROWS)
    if every < 2:
        return segment
    rows = segment.rows.iloc[::every].reset_index(drop=True)
    return replace(segment, rows=rows, absent={name: gaps[::every] for name, gaps in segment.absent.items()})


def shape_of(segment: Segment, column: str) -> tuple[float, ...]:
    """Return the loss over POINTS equal parts of the rows, medians; what is no number is left out."""
    values = segment.values(column)
    parts = [part[np.isfinite(part)] for part in np.array_split(values, POINTS)]
    level = np.array([np.median(part) if len(part) else np.nan for part in parts])
    known = np.flatnonzero(np.isfinite(level))
    level = np.interp(np.arange(POINTS), known, level[known]) if len(known) else np.zeros(POINTS)
    return tuple(float(value) for value in np.clip(level, -1e12, 1e12))


def _features(segment: Segment, main: str) -> dict[str, float]:
    course = track(segment, main)
    printed = segment.printed(main)
    bad = printed & ~(np.abs(segment.values(main)) > 0) | np.isinf(segment.values(main))
    features = {"not_finite": float(bad.sum() / max(printed.sum(), 1))}
    if len(course) >= FEWEST_ROWS:
        features |= _course(course.x, course.z, course.scale)
    return features | _gradients(segment) | _times(segment) | _rate(segment) | _parts(segment) | _machine(segment)


def _course(x: np.ndarray, z: np.ndarray, scale: np.ndarray) -> dict[str, float]:
    count = len(x)
    levels = np.array([np.median(part) for part in np.array_split(x, 60)])
    fall = max(float(levels[0] - levels.min()), 0.02)

    def level(share: float) -> float:
        at = max(int(share * count), 8)
        return float(np.median(x[max(at - max(count // 40, 8), 0) : at]))

    start, end = float(np.median(x[: max(count // 100, 5)])), level(1.0)
    return {
        "noise": float(np.log10(np.nanmedian(scale[count // 2 :]))),
        "highest": float(np.log1p(np.clip(np.nanmax(z), 0, 1e4))),
        "lowest": float(np.log1p(np.clip(-np.nanmin(z), 0, 1e4))),
        "upward": float(np.log1p(np.maximum(np.diff(levels), 0).sum() / fall)),
        "gain_last": level(0.5) - end,
        "gain_before": level(0.25) - level(0.5),
        "gain_early": level(0.125) - level(0.25),
        "shape_half": (level(0.5) - end) / max(abs(start - end), 0.02),
        "shape_late": (level(0.9) - end) / max(abs(start - end), 0.02),
    }


def _gradients(segment: Segment) -> dict[str, float]:
    norm = segment.values("grad_norm")
    norm = norm[np.isfinite(norm)]
    if len(norm) < FEWEST_ROWS:
        return {}
    x = np.log(np.maximum(norm, 1e-12))
    late = x[len(x) // 10 :]
    usual, end = np.median(late), np.median(x[-len(x) // 10 :])
    half = np.median(x[len(x) * 9 // 20 : len(x) * 11 // 20])
    return {
        "gradient_spread": float(TO_SIGMA * np.median(np.abs(np.diff(late)))),
        "gradient_highest": float(late.max() - usual),
        "gradient_lowest": float(usual - late.min()),
        "gradient_end": float(end - half),
    }


def _times(segment: Segment) -> dict[str, float]:
    seconds = segment.values("step_time_seconds")
    seconds = seconds[np.isfinite(seconds) & (seconds > 0)][3:]
    if len(seconds) < FEWEST_ROWS:
        return {}
    x = np.log(seconds)
    tenth = len(x) // 10
    spread = TO_SIGMA * np.median(np.abs(x - np.median(x)))
    drift = float(np.median(x[-tenth:]) - np.median(x[:tenth]))
    return {"step_spread": float(spread), "step_drift": drift, "step_highest": float(x.max() - np.median(x))}


def _rate(segment: Segment) -> dict[str, float]:
    rate = segment.values("lr")
    rate = rate[np.isfinite(rate)]
    if len(rate) < FEWEST_ROWS:
        return {}
    nothing = float(np.mean(rate[:-2] <= 0))
    peak = max(float(rate.max()), 1e-30)
    high = rate > 0.02 * peak
    both = high[1:] & high[:-1] & (np.arange(1, len(rate)) > len(rate) // 20)
    steps = np.abs(np.diff(np.log(np.maximum(rate, 1e-30))))[both]
    return {"rate_jump": float(steps.max(initial=0.0)), "rate_zero": nothing}


def _machine(segment: Segment) -> dict[str, float]:
    """Return what changed from the second tenth of the rows to the last."""
    found = {}
    for name, column in MACHINE.items():
        values = segment.values(column)
        values = values[np.isfinite(values) & (values > 0)]
        if len(values) >= FEWEST_ROWS:
            tenth = len(values) // 10
            before, after = np.median(values[tenth : 2 * tenth]), np.median(values[-tenth:])
            found[name] = float(after - before if name == "temperature_rise" else np.log(after / before))
    return found


def _parts(segment: Segment) -> dict[str, float]:
    if not segment.has("loss", "logits_loss", "aux_loss"):
        return {}
    off = np.abs(segment.values("loss") - segment.values("logits_loss") - segment.values("aux_loss"))
    off = off[np.isfinite(off)]
    return {"parts": float(np.mean(off > 3.1e-4))} if len(off) else {}


def compare(case: Case, golden: Sequence[Case], failures: Iterable[Case] = ()) -> Comparison | Text:
    """Return a run beside golden ones (those of its profile count, itself left out), or why that can't be."""
    others = [each for each in golden if each.profile == case.profile and not (case.run and each.run == case.run)]
    if len(others) < FEWEST_GOLDEN:
        message = N_("{count} golden runs of this kind ({kind}); {needed} are needed before a run can be compared with them.")
        kind = Text(PROFILES.get(case.profile, case.profile))
        return Text(message, {"count": len(others), "kind": kind, "needed": FEWEST_GOLDEN})
    usual, scale = _scales(others)
    near = _nearest(case, others, usual, scale)
    if not near:
        message = N_("Its log tells {count} of the features; {needed} are needed.")
        return Text(message, {"count": len(case.features), "needed": FEWEST_FEATURES})
    distance = float(np.mean([each.distance for each in near]))
    own = distances(_scaled(others, usual, scale), _scaled(others, usual, scale))
    np.fill_diagonal(own, np.inf)
    limit = float(np.nanquantile(np.sort(own, axis=1)[:, :NEIGHBOURS].mean(axis=1), 0.95))
    score = int(round(100 * min(1.0, limit / max(distance, 1e-9))))
    same = [each for each in failures if each.profile == case.profile and not (case.run and each.run == case.run)]
    return Comparison(
        score,
        distance,
        limit,
        len(others),
        tuple(_differences(case, usual, scale)[:NEIGHBOURS]),
        tuple(near),
        tuple(_nearest(case, same, usual, scale, each_kind_once=True)),
    )


def _scales(golden: Sequence[Case]) -> tuple[dict[str, float], dict[str, float]]:
    """Return median and robust deviation of each feature that at least FEWEST_WITH of the golden runs have."""
    usual, scale = {}, {}
    for name in FEATURES:
        values = np.array([case.features[name] for case in golden if name in case.features])
        if len(values) >= FEWEST_WITH:
            usual[name] = float(np.median(values))
            spread = TO_SIGMA * float(np.median(np.abs(values - usual[name])))
            scale[name] = max(spread, LEAST.get(name, 0.05))
    return usual, scale


def _nearest(
    case: Case,
    others: Sequence[Case],
    usual: Mapping[str, float],
    scale: Mapping[str, float],
    *,
    each_kind_once: bool = False,
) -> list[Near]:
    if not others:
        return []
    apart = distances(_scaled([case], usual, scale), _scaled(others, usual, scale))[0]
    order = [int(at) for at in np.argsort(apart, kind="stable") if np.isfinite(apart[at])]
    if each_kind_once:
        order = list({others[at].kind: at for at in reversed(order)}.values())
        order.sort(key=lambda at: apart[at])
    return [Near(others[at], float(apart[at])) for at in order[:NEIGHBOURS]]


def _scaled(cases: Sequence[Case], usual: Mapping[str, float], scale: Mapping[str, float]) -> np.ndarray:
    """Return features in deviations (cases, features), NaN where one is not known; far outside of the usual all are alike."""
    rows = [[(case.features.get(name, np.nan) - usual[name]) / scale[name] for name in usual] for case in cases]
    return np.clip(np.array(rows), -MOST_DEVIATIONS, MOST_DEVIATIONS)


def distances(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how far each of (m, features) is from each of (n, features): (m, n), infinite where (m,) has too few features.

    What another does not know of itself is taken as usual: else a run that prints more is near to all that print less.
    """
    off = np.abs(some[:, None, :] - np.nan_to_num(others)[None, :, :])
    there = np.isfinite(off)
    count = there.sum(axis=2)
    total = np.power(np.where(there, off, 0.0), POWER).sum(axis=2)
    mean = np.power(total / np.maximum(count, 1), 1 / POWER)
    return np.where(count >= FEWEST_FEATURES, mean, np.inf)


def _differences(case: Case, usual: Mapping[str, float], scale: Mapping[str, float]) -> list[Difference]:
    found = [
        Difference(name, case.features[name], usual[name], (case.features[name] - usual[name]) / scale[name])
        for name in usual
        if name in case.features
    ]
    return sorted(found, key=lambda each: -abs(each.deviations))

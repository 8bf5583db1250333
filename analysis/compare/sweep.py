"""Many runs at once: which setting goes with the result, how sure that is, and when there are too few runs to say.

For each setting two answers: the rank correlation (does more of it mean a higher or lower result) with its interval, and the
share of the result's order that its values explain in any shape, a best value in the middle too, against shuffled results.
Several settings are asked at once, so intervals and shuffles are for all of them together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from analysis.compare.conditions import amount, is_neutral, kinds, same
from analysis.compare.config_diff import is_compared
from analysis.compare.fairness import Reason
from messages import N_, Text, listed

LEAST = 8  # runs; with fewer any order can be chance
BINS = 5  # of the values of a number with many
LEVELS = 20  # different words of a setting; more are names
SHUFFLES = 200
MOST_KEYS = 200
CONFUSED = 0.9  # rank correlation of two settings from which they can't be told apart
FEW = N_("too few comparable runs have a result ({count}) for a correlation: it takes {least}; they are listed and drawn")
FEW_ALIKE = N_("too few comparable runs have a result ({count}) for a correlation, which takes {least}, and no setting varies")
ALIKE = N_("no setting varies among the {count} runs, so none can explain the result")
NOTHING = N_("none of the {count} settings that vary explains the result beyond chance")
EXPLAINS = N_("{what} explains the result best: {share:.0%} of its order")
CONFOUNDED = N_("{what} can't be told apart from {other}: they vary together")


@dataclass(frozen=True)
class Key:
    """A setting of a sweep. rank: correlation of its order with that of the result (None: not numbers), with (low, high);
    share: of the order that its values explain, 0…1; sure: beyond chance, all settings together. best: value of the best run.
    values, levels: how many runs state it, and how many different values it has; confused: settings that vary with it.
    """

    name: str
    title: str
    rank: float | None
    low: float | None
    high: float | None
    share: float
    sure: bool
    best: Any
    values: int
    levels: int
    confused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Sweep:
    """What explains the result among many runs: settings, the best explanation first, and the same in a sentence.

    varied: the settings that vary, by name, also where the runs are too few to say more. left: which runs are not counted, and
    why.
    """

    keys: tuple[Key, ...]
    runs: int
    text: Text
    notes: tuple[Text, ...] = ()
    varied: tuple[str, ...] = ()
    left: tuple[Reason, ...] = ()


def sweep(configs: Sequence[Mapping[str, Any]], results: Sequence[float | None], *, lower_is_better: bool = True) -> Sweep:
    """Return which settings go with the results.

    configs: settings of each run, by condition of the table or as printed; results: one number a run, None without one.
    """
    kept = [n for n, value in enumerate(results) if value is not None and math.isfinite(value)]
    outcome = np.array([results[n] for n in kept], dtype=float)
    configs = [configs[n] for n in kept]
    names = varied_keys(configs)
    if len(kept) < LEAST:
        few = Text(FEW if names else FEW_ALIKE, {"count": len(kept), "least": LEAST})
        return Sweep((), len(kept), few, varied=tuple(names))
    if not names:
        return Sweep((), len(kept), Text(ALIKE, {"count": len(kept)}))
    order = _ranks(outcome)
    best = int(np.argmin(outcome) if lower_is_better else np.argmax(outcome))
    columns = {name: [config.get(name) for config in configs] for name in names}
    shuffles = np.random.default_rng(0).permuted(np.tile(order, (SHUFFLES, 1)), axis=1)
    told = [_key(name, column, order, shuffles, best, len(names)) for name, column in columns.items()]
    keys = sorted((key for key in told if key is not None), key=lambda key: (not key.sure, -key.share))
    keys = _confused(keys, columns)
    return Sweep(tuple(keys), len(kept), _sentence(keys), _notes(keys), tuple(names))


def varied_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that have more than one value among the runs, those of the table of conditions first."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(key for config in configs for key in config):
        if name not in kinds() and (not is_compared(name) or is_neutral(name)):
            continue
        values = [config[name] for config in configs if config.get(name) is not None]
        if len(values) >= 2 and any(not same(values[0], value) for value in values[1:]):
            found[name] = len(values)
    return sorted(found, key=lambda name: (name not in kinds(), -found[name]))[:MOST_KEYS]


def _key(name: str, column: list[Any], order: np.ndarray, shuffles: np.ndarray, best: int, asked: int) -> Key | None:
    stated = np.array([value is not None for value in column])
    numeric = [_number(value) for value in column]
    is_number = all(number is not None for number, there in zip(numeric, stated, strict=True) if there)
    numbers = np.array([math.nan if value is None else value for value in numeric])
    labels = _levels(column, numbers, is_number)
    if stated.sum() < LEAST or labels is None:
        return None
    groups, among = labels[stated], order[stated]
    share = _explained(groups, among[None, :])[0]
    chance = _explained(groups, shuffles[:, stated])
    sure = bool(share > np.quantile(chance, 1 - 0.05 / max(asked, 1))) if asked <= 10 else bool(share > _tail(chance, asked))
    rank = low = high = None
    if is_number:
        rank = _correlation(_ranks(numbers[stated]), _ranks(among))
        low, high = _interval(rank, int(stated.sum()), asked)
        sure = sure or bool(low > 0 or high < 0)
    title = kinds()[name].title if name in kinds() else name
    return Key(
        name,
        title,
        rank,
        low,
        high,
        float(share),
        sure,
        column[best],
        int(stated.sum()),
        len({str(value) for value in column if value is not None}),
    )


def _tail(chance: np.ndarray, asked: int) -> float:
    """Return the share that chance passes once in 20 times among so many settings, from the upper tail of few shuffles."""
    middle, top = np.quantile(chance, [0.5, 0.95])
    return float(min(top + (top - middle) * math.log(max(asked, 1)) / 2, 1.0))


def _number(value: Any) -> float | None:
    return None if value is None else amount(value)


def _levels(column: list[Any], numbers: np.ndarray, is_number: bool) -> np.ndarray | None:
    """Return the level of each run (n,): the value itself, for numbers with many values one of BINS; -1 where not stated."""
    if is_number:
        known = numbers[np.isfinite(numbers)]
        if not len(known):
            return None
        values = np.unique(known)
        edges = values if len(values) <= BINS else np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[:-1]))
        return np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right"), -1)
    words = [str(value).strip().lower()[:200] for value in column]
    known_words = {word: n for n, word in enumerate(dict.fromkeys(words))}
    if len(known_words) > LEVELS:
        return None
    return np.array([-1 if value is None else known_words[word] for word, value in zip(words, column, strict=True)])


def _explained(groups: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the share of the variance of each row of ranks (k, n) that lies between the groups, less what chance gives."""
    _names, member = np.unique(groups, return_inverse=True)
    count = np.bincount(member)
    indicator = np.zeros((len(member), len(count)))
    indicator[np.arange(len(member)), member] = 1.0
    means = orders @ indicator / count
    total = ((orders - orders.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    between = ((means - orders.mean(axis=1, keepdims=True)) ** 2 * count).sum(axis=1)
    free = len(member) - len(count)
    if free <= 0:
        return np.zeros(len(orders))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1 - (total - between) / free / (total / (len(member) - 1))
    return np.clip(np.nan_to_num(share), 0, 1)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values (n,) from 0 on, those of equal values their mean."""
    _values, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray(((ends - count + ends - 1) / 2)[inverse])


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    spread = float(a.std() * b.std())
    return float(np.mean((a - a.mean()) * (b - b.mean())) / spread) if spread > 0 else 0.0


def _interval(rank: float, count: int, asked: int) -> tuple[float, float]:
    """Return the interval of a rank correlation (Fisher's z with the standard error of Bonett and Wright)."""
    z = math.atanh(max(min(rank, 0.999999), -0.999999))
    half = _normal(1 - 0.025 / max(asked, 1)) * math.sqrt((1 + rank**2 / 2) / max(count - 3, 1))
    return math.tanh(z - half), math.tanh(z + half)


@lru_cache(maxsize=64)
def _normal(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _confused(keys: Sequence[Key], columns: Mapping[str, list[Any]]) -> list[Key]:
    """Note of the settings that explain something with which others they vary together."""
    found = []
    sure = [key for key in keys if key.sure and key.rank is not None][:20]
    ranks = {key.name: np.array([_number(value) for value in columns[key.name]], dtype=float) for key in sure}
    for key in keys:
        others = []
        for other in sure:
            if key.name in ranks and other.name != key.name:
                both = np.isfinite(ranks[key.name]) & np.isfinite(ranks[other.name])
                if (
                    both.sum() >= LEAST
                    and abs(_correlation(_ranks(ranks[key.name][both]), _ranks(ranks[other.name][both]))) > CONFUSED
                ):
                    others.append(other.title)
        found.append(Key(**{**key.__dict__, "confused": tuple(others)}))
    return found


def _sentence(keys: Sequence[Key]) -> Text:
    if not keys or not keys[0].sure:
        return Text(NOTHING, {"count": len(keys)})
    return Text(EXPLAINS, {"what": Text(keys[0].title), "share": keys[0].share})


def _notes(keys: Sequence[Key]) -> tuple[Text, ...]:
    return tuple(
        Text(CONFOUNDED, {"what": Text(key.title), "other": listed(Text(title) for title in key.confused)})
        for key in keys[:3]
        if key.sure and key.confused
    )

"""The canonical columns of a run, read from columns.toml: printed names in, canonical names and unit factors out."""

import re
import tomllib
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("columns.toml")
RESERVED = (
    "line", "kind", "segment", "step", "step_printed", "epoch", "timestamp", "instant", "rank", "at", "anchor", "per_epoch",
)  # fmt: skip
PLANNED = "steps_planned"  # of an epoch or of the run: segments.py finds out, rows.py gives it its name
PLANS = (PLANNED, "steps_per_epoch", "total_steps")
LEAST_BYTES = 1 << 20  # of memory: a smaller number counts something else than bytes
MAX_NAME = 120  # a hostile log may print a name of any length
_BRACKETED_UNIT = re.compile(r"\s*[(\[]\s*(?:in )?([^()\[\]]{1,20})\s*[)\]]\s*$")
_NAMED_UNIT = re.compile(r"[\s_]+(?:in )?(ms|us|s|sec|secs|seconds|min|minutes|hours|gb|mb|gib|mib)$", re.IGNORECASE)
_OF_STEP = re.compile(r"(?:step|iter|iteration|batch)_(ms|us|s|secs?|seconds)$", re.IGNORECASE)  # `step_ms=12.5`
_PER_STEP = re.compile(r"(?:ms|s|us)/(?:it|iter|step|batch)")  # a name that is a unit: `ms/batch 12.5`
_NEUTRAL = re.compile(  # what holds all numbers of a record says nothing about one: `metrics/loss`, `optim/lr`
    r"^(?:(?:train|training|trainer|metrics?|scalars?|stats?|data|logs?|values?|payload|fields|optim|optimizer|perf|performance)[/.])+",
    re.IGNORECASE,
)
_EVAL_WORD = re.compile("验证|评估|测试")
_EVAL_PREFIX = re.compile(r"^(?:eval|val|valid|validation|test|dev)[_/. -]+", re.IGNORECASE)


@dataclass(frozen=True)
class Canonical:
    """One canonical column as columns.toml describes it; `unit` is the unit of every stored value ("" = none)."""

    name: str
    title: str
    unit: str
    role: str


@dataclass(frozen=True)
class Resolved:
    """What a printed name means: the canonical name, the unit, the role, and value × multiply ÷ divide in that unit.

    `position` is `step`, `epoch`, `timestamp` or `rank` for names that say where a row is, else None.
    """

    name: str
    unit: str = ""
    role: str | None = None
    multiply: float = 1.0
    divide: float = 1.0
    position: str | None = None


def squash(name: str) -> str:
    """Return a printed name with case, blanks and punctuation made equal: the key under which aliases are found."""
    return re.sub(r"[^0-9a-z%\u4e00-\u9fff]+", "_", name.lower()).strip("_")


def sanitise(name: str) -> str:
    """Return an unknown printed name in [a-z0-9_/.-], at most MAX_NAME long; `value` if nothing is left of it."""
    return re.sub(r"[^0-9a-z/.-]+", "_", name.lower())[:MAX_NAME].strip("_") or "value"


def spare_name(printed: str, taken: Container[str]) -> str:
    """Return a column name for a printed name whose own column is taken: the printed name, else with a number."""
    name = free = sanitise(printed)
    number = 1
    while free in taken or free in RESERVED:
        number += 1
        free = f"{name}_{number}"
    return free


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@cache
def canonical() -> dict[str, Canonical]:
    """Return every canonical column by name, in the order of columns.toml."""
    return {
        name: Canonical(name, entry["title"], entry.get("unit", ""), entry["role"])
        for name, entry in _table()["column"].items()
    }


@cache
def _aliases() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entry in _table()["column"].items():
        for alias in (name, *entry.get("aliases", ())):
            found.setdefault(squash(alias), name)
    return found


@cache
def precedence(printed: str) -> int:
    """Return 0 for a column's own name, n for its n-th alias; names that are not known come last."""
    key = squash(_split_unit(printed)[0])
    name = _aliases().get(key)
    names = [] if name is None else [squash(one) for one in (name, *_table()["column"][name].get("aliases", ()))]
    return names.index(key) if key in names else 1 << 16


@cache
def _positions() -> dict[str, str]:
    return {squash(alias): position for position, aliases in _table()["position"].items() for alias in aliases}


@cache
def _units() -> dict[str, tuple[str, float, float]]:
    units: dict[str, tuple[str, float, float]] = {}
    for measure, table in _table()["unit"].items():
        for unit, factor in table.items():
            divide = float(factor[1:]) if factor.startswith("/") else 1.0
            units[unit] = (measure, 1.0 if factor.startswith("/") else float(factor), divide)
    of_names = {unit.lower(): found for unit, found in units.items() if len(unit) > 2 or unit[1:] == "B"}
    return of_names | units  # `gib`, `mem_gb`; but `m` is no `M`


def unit_factor(printed: str, wanted: str) -> tuple[float, float] | None:
    """Return (multiply, divide) from a printed unit to the wanted one, None where they do not measure the same."""
    source = _units().get(printed) or _units().get(printed.lower())
    target = _units().get(wanted)
    if source is None or target is None or source[0] != target[0]:
        return None
    multiply, divide = source[1] * target[2], source[2] * target[1]
    return (multiply / divide, 1.0) if divide > 1 and multiply % divide == 0 else (multiply, divide)


def is_unit(text: str) -> bool:
    """Say whether a text glued to a number is a unit that columns.toml knows."""
    return text in _units() or text.lower() in _units() or text in _table()["magnitude"]


def magnitude(unit: str) -> float:
    """Return what a number with this unit is multiplied with where it counts: `12.5k`, `3M`."""
    return float(_table()["magnitude"].get(unit, 1.0))


@cache
def is_known(name: str) -> bool:
    """Say whether columns.toml knows a printed name (with a unit in brackets or without) as a column or a position."""
    if _PER_STEP.fullmatch(name.lower()) or _OF_STEP.fullmatch(name):
        return True
    names = (name, _BRACKETED_UNIT.sub("", name), name if name.isascii() else _bilingual(name))
    return any(key in _aliases() or key in _positions() for key in map(squash, names))


@cache
def evaluates(name: str) -> bool:
    """Say whether a printed name is that of a column, of an evaluation: `valid ppl`, `Test Accuracy`."""
    prefix = _EVAL_PREFIX.match(name)
    return prefix is not None and squash(name[prefix.end() :]) in _aliases()


@cache
def resolve(printed: str, unit: str = "") -> Resolved:
    """Return what a printed name (with the unit printed beside the value, if any) means.

    A unit at the end of the name counts as the unit: `elapsed time per iteration (ms)`, `step_time_ms`. A number such as
    `12.5K` may stand under either.
    """
    base, named = _split_unit(printed.strip())
    key = squash(base)
    if not base.isascii() and key not in _aliases() and key not in _positions():
        key = squash(_bilingual(base))
    if key not in _aliases() and key not in _positions():
        key = squash(_NEUTRAL.sub("", base))
    if position := _positions().get(key):
        return Resolved(position, position=position, multiply=magnitude(unit))
    name = _by_unit(key, unit or named) or _aliases().get(key)
    if name is None:
        return _unknown(base, unit or named)
    if _contradicts(unit or named, canonical()[name].unit):
        own = sanitise(base)
        return Resolved(f"{own}_{sanitise(unit or named)}" if own in canonical() else own, unit or named)
    return _measured(name, unit, named)


def _bilingual(name: str) -> str:
    """Return the Latin part of a name in two scripts (`训练loss`, `步数 step`); one of an evaluation says so."""
    latin = re.sub(r"[^\x00-\x7f]+", " ", name).strip()
    return f"eval_{latin}" if latin and _EVAL_WORD.search(name) else latin or name


def _split_unit(name: str) -> tuple[str, str]:
    """Return (name, unit) of a name that ends with its unit; a name that is known as it is has none."""
    if _PER_STEP.fullmatch(name.lower()):
        return "step_time", name.lower()
    if of_step := _OF_STEP.fullmatch(name):
        return "step_time", of_step[1].lower()
    found = _BRACKETED_UNIT.search(name)
    if found and squash(name) not in _aliases() and squash(name) not in _positions():
        return name[: found.start()], found.group(1)
    found = _NAMED_UNIT.search(name)
    if found and squash(name) not in _aliases() and _aliases().get(squash(name[: found.start()])):
        return name[: found.start()], found.group(1)
    return name, ""


def _by_unit(key: str, unit: str) -> str | None:
    """Return the column of a name that only its unit tells: `throughput` in samples/s."""
    entry = next((entry for entry in _table()["by_unit"] if key in entry["names"]), None)
    if entry is None or not unit:
        return None
    fit = (name for name in entry["columns"] if unit_factor(unit, canonical()[name].unit))
    return next((name for name in fit if canonical()[name].unit != "s" or "/" in unit), None)  # `1.2s/it`, but not `1.2s`


def _contradicts(unit: str, wanted: str) -> bool:
    """Say whether a printed unit measures something else than the column of the name: `throughput: 12.5 GB/s`, `mem: 45%`."""
    known = unit in _units() or unit.lower() in _units()
    return bool(wanted) and known and unit not in _table()["magnitude"] and unit_factor(unit, wanted) is None


def lacks_unit(meaning: Resolved, printed: str, value: float) -> bool:
    """Say whether a size has no unit that is known: `max mem: 5500` is no number of bytes, for no memory is as small."""
    plain = meaning.unit == "B" and meaning.multiply == meaning.divide == 1
    return plain and 0 < value < LEAST_BYTES and "byte" not in printed.lower()


def _measured(name: str, unit: str, named: str = "") -> Resolved:
    """Return a canonical column with the factors from the unit beside the value, or from the one its name says."""
    column = canonical()[name]
    multiply, divide = unit_factor(unit or named, column.unit) or (1.0, 1.0)
    if unit in _table()["magnitude"] and column.unit != "B":
        multiply, divide = unit_factor(named, column.unit) or (1.0, 1.0)
        multiply *= _table()["magnitude"][unit]
    return Resolved(name, column.unit, column.role, multiply, divide)


@cache
def beside(names: frozenset[str]) -> dict[str, Resolved]:
    """Return the printed names among these that mean something only because another one stands beside them."""
    keys = {squash(name): name for name in names}
    return {
        keys[squash(name)]: _measured(column, entry.get("unit", ""))
        for entry in _table()["beside"]
        if squash(entry["other"]) in keys
        for name, column in entry["names"].items()
        if squash(name) in keys
    }


@cache
def exact(name: str, unit: str = "") -> Resolved:
    """Return what a column name means that a format declares: no alias is looked up."""
    if name in _table()["position"]:
        return Resolved(name, position=name)
    return _measured(name, unit) if name in canonical() else Resolved(sanitise(name), unit)


def _unknown(printed: str, unit: str) -> Resolved:
    if prefix := _EVAL_PREFIX.match(printed):
        return Resolved("eval_" + sanitise(printed[prefix.end() :]), unit, "evaluation")
    return Resolved(spare_name(printed, ()), *_plain_magnitude(unit))


def _plain_magnitude(unit: str) -> tuple[str, None, float]:
    """Return (unit, no role, factor) of a number under a name that is not known: `25.6K` is 25600."""
    magnitude = _table()["magnitude"].get(unit)
    return (unit, None, 1.0) if magnitude is None else ("", None, magnitude)

"""What differs between runs: conditions of the table first, then every other setting; what is equal is only counted.

A setting that only some logs print is unknown for the others: it may differ, and is no difference that was seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.compare.conditions import (
    CONFIG,
    DECISIVE,
    GROUPS,
    LOG,
    PLACES,
    SIX,
    Said,
    family_of,
    group_of,
    is_neutral,
    kind_of,
    kinds,
    plain_key,
    same,
    same_place,
)
from analysis.compare.course import course_words, courses
from analysis.compare.subject import Subject

EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"
# Settings that are read for a condition of the table although they are none of its keys.
ELSEWHERE = frozenset({"world_size", "num_gpus", "n_gpus", "ngpus", "gpu_count", "bf16", "fp16", "dist_world_size"})
PACE = frozenset({"effective_batch", "batch", "accumulation", "gpus", "steps_per_epoch", "dataset", "examples"})
MOST_ROWS = 500  # of settings that differ, in a table for people


@dataclass(frozen=True)
class Row:
    """A condition or setting of which the runs say different things, or not all say one.

    key: its name in the table of conditions, a family, or the setting as printed; title: words for people ("": the key).
    status: different (two runs say different things) | unknown (not all say it) | equal. values, sources: one a run, None
    where a run does not say it. six: condition class ("" for none). follows: it is a consequence of another difference.
    neutral: it is about places and printing. known: it is in the table of conditions.
    """

    key: str
    title: str
    group: str
    six: str
    status: str
    values: tuple[Any, ...]
    sources: tuple[str | None, ...] = ()
    follows: bool = False
    neutral: bool = False
    known: bool = False

    @property
    def varied(self) -> bool:
        """Say whether it is a variable of the comparison."""
        return self.status == DIFFERENT and not self.follows and not self.neutral


@dataclass(frozen=True)
class ConfigDiff:
    """The differences of two or more runs.

    rows: conditions (also equal and unknown ones) and settings that differ, variables first. six, groups: status of each
    condition class and group with the titles of what differs or is not known. equal: how many settings are equal.
    more: rows left out of a long list. variables: how many there are, those left out too.
    """

    rows: tuple[Row, ...]
    six: Mapping[str, tuple[str, tuple[str, ...]]]
    groups: Mapping[str, tuple[str, tuple[str, ...]]]
    equal: int = 0
    more: int = 0
    variables: int = 0

    @property
    def varied(self) -> tuple[Row, ...]:
        """Return the variables: what differs and is neither a consequence nor about places and printing."""
        return tuple(row for row in self.rows if row.varied)

    def row(self, key: str) -> Row | None:
        """Return a condition by its name."""
        return next((row for row in self.rows if row.key == key), None)


def config_diff(subjects: Sequence[Subject], said: Sequence[Mapping[str, Said]]) -> ConfigDiff:
    """Return what differs between what runs say of the conditions and between their settings, in any types, of any length."""
    table = {name: _condition(name, said) for name in kinds()}
    settings, equal = _settings([one.config for one in subjects])
    differ = {row.key for row in table.values() if row.status == DIFFERENT} | {row.title for row in settings}
    table["schedule"] = _schedule(table["schedule"], subjects, differ)
    conditions = [_consequence(row, differ) for row in table.values()]
    rows = [row for row in conditions if any(value is not None for value in row.values)] + settings
    order = {DIFFERENT: 0, UNKNOWN: 1, EQUAL: 2}
    rows.sort(key=lambda row: (not row.varied, order[row.status], row.neutral, row.follows, not row.known))
    # What data a run had is asked twice, as a class of the conditions and as a group of the variables: one answer.
    data = [row for row in rows if "data" in (row.six, row.group)]
    six = {name: _status(name, data if name == "data" else [row for row in rows if row.six == name]) for name in SIX}
    groups = {name: _status(name, data if name == "data" else [row for row in rows if row.group == name]) for name in GROUPS}
    variables = sum(row.varied for row in rows)
    return ConfigDiff(tuple(rows[:MOST_ROWS]), six, groups, equal, max(len(rows) - MOST_ROWS, 0), variables)


def _schedule(row: Row, subjects: Sequence[Subject], differ: set[str]) -> Row:
    """Return the row of the schedule as the printed learning rates have it, which a header does not always say.

    The rates of another plan or batch that are the same at equal progress follow from that; where they are only higher or
    lower throughout, it is the learning rate that differs.
    """
    printed = max(range(len(subjects)), key=lambda n: _last_rate(subjects[n]))
    names = tuple(None if source == LOG else value for value, source in zip(row.values, row.sources, strict=True))
    headers = _compared(names)
    if headers == DIFFERENT:
        return _with(row, values=names)
    found = [courses(subjects[printed], one) for n, one in enumerate(subjects) if n != printed]
    apart = [one for one in found if one is not None and one.rates and (one.shape or "lr" not in differ)]
    if apart:
        told = tuple(course_words(one, name) for one, name in zip(subjects, names, strict=True))
        if len(set(told)) == 1:
            told = tuple(course_words(one, name, apart[0].widest) for one, name in zip(subjects, names, strict=True))
        values = tuple(words if "lr" in one.curves else name for words, one, name in zip(told, subjects, names, strict=True))
        sources = tuple(None if value is None else source or LOG for value, source in zip(values, row.sources, strict=True))
        paced = not any(one.progress for one in apart) and bool(differ & PACE)
        return _with(row, status=DIFFERENT, values=values, sources=sources, follows=paced or row.title in differ)
    seen = all(one is not None and one.whole and not one.rates for one in found)
    if headers == EQUAL or not seen:  # a short log shows a part of a course, which proves no shape
        kept = tuple(value if n == printed else name for n, (value, name) in enumerate(zip(row.values, names, strict=True)))
        return _with(row, values=kept, status=EQUAL if EQUAL in (headers, _compared(kept)) else UNKNOWN)
    return _with(row, values=(course_words(subjects[printed], names[printed]),) * len(subjects), status=EQUAL)


def _last_rate(one: Subject) -> float:
    curve = one.curves.get("lr")
    return float(curve.step[-1]) if curve is not None and len(curve) else float("-inf")


def _condition(name: str, said: Sequence[Mapping[str, Said]]) -> Row:
    kind = kinds()[name]
    found = [one.get(name) for one in said]
    values = tuple(None if one is None else one.value for one in found)
    sources = tuple(None if one is None else one.source for one in found)
    # What the numbers of a log show is less sharp than what its header says.
    lenient = max(kind.lenient, 0.01) if any(source not in (None, CONFIG) for source in sources) else kind.lenient
    status = _compared(values, lenient)
    if status == DIFFERENT and name in PLACES and None not in values and all(same_place(values[0], one) for one in values[1:]):
        status = EQUAL
    return Row(name, kind.title, kind.group, kind.six, status, values, sources, known=True)


def _compared(values: Sequence[Any], lenient: float = 1e-9) -> str:
    known = [value for value in values if value is not None]
    if any(not same(known[0], value, lenient) for value in known[1:]):
        return DIFFERENT
    return EQUAL if len(known) == len(values) else UNKNOWN


def _consequence(row: Row, differ: set[str]) -> Row:
    follows = row.status == DIFFERENT and any(cause in differ for cause in kinds()[row.key].follows)
    return row if not follows else _with(row, follows=True)


def _with(row: Row, **changed: Any) -> Row:
    return Row(**{**row.__dict__, **changed})


def _settings(configs: Sequence[Mapping[str, Any]]) -> tuple[list[Row], int]:
    """Return the settings outside of the table that differ or are unknown, families as one row each, and how many are equal."""
    keys = dict.fromkeys(key for config in configs for key in config)
    # A name in another spelling is the same setting, and those of the table are compared there.
    rows, equal = [], 0
    families: dict[str, list[Row]] = {}
    for key in keys:
        values = tuple(config.get(key) for config in configs)
        first = values[0]
        if all(value == first and type(value) is type(first) for value in values[1:]):
            equal += 1
            continue
        status = _compared(values)
        if status == EQUAL:
            equal += 1
            continue
        if kind_of(key) is not None or plain_key(key) in ELSEWHERE:
            continue
        family = family_of(key)
        row = Row(str(key), "", group_of(key), family[2] if family else "", status, values, neutral=is_neutral(key))
        if family and status == DIFFERENT:
            families.setdefault(family[0], []).append(_with(row, title=family[1]))
        else:
            rows.append(row)
    return [*(_family(name, parts) for name, parts in families.items()), *rows], equal


def is_compared(key: str) -> bool:
    """Say whether a setting outside of the table of conditions counts as a variable where it differs."""
    return kind_of(key) is None and plain_key(key) not in ELSEWHERE and not is_neutral(key)


def _family(name: str, parts: list[Row]) -> Row:
    """Return one row for the settings of a family: the shortest name stands for it."""
    lead = min(parts, key=lambda row: len(row.key))
    others = len(parts) - 1
    key = f"{lead.key} (+{others})" if others else lead.key
    return _with(lead, key=key, neutral=False, six=lead.six)


def _status(name: str, rows: Sequence[Row]) -> tuple[str, tuple[str, ...]]:
    """Return the status of a class or group, with the titles of what differs or is not known.

    Different if anything in it is. Equal if all runs say what it is known by (DECISIVE) and nothing in it is said by some only.
    """
    titles = [(row, row.title or row.key) for row in rows if not row.neutral]
    differ = tuple(dict.fromkeys(title for row, title in titles if row.status == DIFFERENT))
    if differ:
        return DIFFERENT, differ
    partly = tuple(dict.fromkeys(title for row, title in titles if row.status == UNKNOWN))
    # Rate and course are seen in one column: no two things that are said.
    seen = {row.key for row, _title in titles if row.key == "schedule" and CONFIG not in row.sources}
    equal = [row.key for row, _title in titles if row.status == EQUAL and row.known and row.key not in seen]
    least, decisive = DECISIVE.get(name, (1, ()))
    enough = len(equal) >= least and (not decisive or any(key in decisive for key in equal))
    return (EQUAL, ()) if enough and not partly else (UNKNOWN, partly)

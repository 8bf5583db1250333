"""Numbers that are printed as text: `"3.412"`, `2.28%`, `10/438`, `36m 53s`, `3 days, 17:51:32`, `32768 MiB`, `tensor(0.1)`.

Whole columns at a time, through RE2. Durations become seconds, sizes bytes, unless the name of the column already says
its unit (`memory.used [MiB]`, `step_ms`): then the number stays in that unit. MB and GB are read as binary multiples,
as GPU tools and PyTorch's own summaries print them.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_PLAIN = rf"^(?:{_NUMBER}|[+-]?(?i:nan|inf|infinity))$"
_THOUSANDS = r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$"
_NULL = r"^(?i:|null|none|no log|n/?a|\[n/?a\]|\[not supported\]|-+)$"
_WRAPPED = r"^(?:[\w.]+\.)?(?:float|int|uint|bfloat|tensor|array|Tensor)\d*\(\s*([^(),]+?)\s*(?:,[^()]*)?\)$"
_UNIT = rf"^(?P<value>{_NUMBER}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?)(?P<unit>\s*(?:%|[°A-Za-zµ][°A-Za-zµ/]{{0,15}}))$"
_FRACTION = rf"^(?P<value>{_NUMBER})\s*/\s*(?P<total>{_NUMBER})$"
_CLOCK = r"^(?:(?P<d>\d+)\s*(?:days?|d),?\s*)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+(?:\.\d+)?)$"
_SPELLED = (
    r"^(?:(?P<d>[\d.]+)\s*d(?:ays?)?,?\s*)?(?:(?P<h>[\d.]+)\s*h(?:(?:ou)?rs?)?,?\s*)?"
    r"(?:(?P<m>[\d.]+)\s*m(?:in(?:ute)?s?)?,?\s*)?(?:(?P<s>[\d.]+)\s*s(?:ec(?:ond)?s?)?)?$"
)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SIZES = {"B": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_TIME = re.compile(
    r"(?:^|[_\W])(?:time|elapsed|remaining|eta|duration|left|runtime)(?:$|[_\W])", re.I
)  # names whose m is a minute
_SHORT_TIMES = {"m": ("s", 60.0), "d": ("s", 86400.0)}
_HEADER_UNIT = re.compile(r"[\[(]\s*([^\])(\[]+?)\s*[\])]\s*$|_(ms|sec|secs|seconds|s|min|minutes|kb|mb|gb|kib|mib|gib)$", re.I)

# printed unit -> (what is stored, factor); found without regard to case, except that `m` and `M` differ
UNITS: dict[str, tuple[str, float]] = {
    "%": ("%", 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "s/it", "s/iter", "sec/it", "s/step"), ("s", 1.0)),
    **dict.fromkeys(("ms", "msec", "ms/it", "ms/step", "ms/iter"), ("s", 0.001)),
    **dict.fromkeys(("us", "µs"), ("s", 1e-06)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), ("s", 60.0)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("s", 3600.0)),
    **dict.fromkeys(("day", "days"), ("s", 86400.0)),
    **{f"{prefix.lower()}{tail}": ("B", size) for prefix, size in _SIZES.items() if prefix != "B" for tail in ("b", "ib")},
    "bytes": ("B", 1.0),
    "w": ("W", 1.0),
    "mw": ("W", 1e-3),
    "kw": ("W", 1e3),
    "c": ("°C", 1.0),
    "°c": ("°C", 1.0),
    "mhz": ("MHz", 1.0),
    "k": ("", 1e3),
    "m": ("", 1e6),
    "g": ("", 1e9),
    "b": ("", 1e9),
    "t": ("", 1e12),
}


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers: float64 `values` (null: none), `total` of `a/b`, the `unit`, which rows were no numbers."""

    values: pa.Array
    total: pa.Array | None
    unit: str
    bad: pa.Array  # boolean: text that is no number


def header_unit(name: str) -> str | None:
    """Return the unit a printed column name carries (`memory.used [MiB]` -> `MiB`), None where it carries no known one."""
    found = _HEADER_UNIT.search(name)
    unit = (found.group(1) or found.group(2)) if found else None
    return unit if unit and unit.lower() in UNITS else None


def fraction_names(name: str) -> tuple[str, str]:
    """Return the names of the two numbers of a column of fractions: `step/max_steps` names both, `step` gets `step_total`."""
    first, slash, second = name.partition("/")
    return (first, second) if first and slash and second and "/" not in second else (name, f"{name}_total")


def looks_numeric(texts: pa.Array, sample: int = 256) -> bool:
    """Return whether at least half of the first non-null texts read as numbers."""
    head = pc.drop_null(texts.slice(0, 4 * sample)).slice(0, sample)
    if not len(head):
        return False
    read = to_numbers(head)
    given = len(head) - pc.sum(_matches(pc.utf8_trim_whitespace(head), _NULL)).as_py()
    return given > 0 and 2 * (len(head) - read.values.null_count) >= given


def to_numbers(texts: pa.Array, *, name: str = "") -> Numbers:
    """Read a string column as numbers in one unit; what cannot be read is null and marked `bad`."""
    text = pc.utf8_trim_whitespace(texts)
    for alike in (_plain, _one_unit, _clocks, _fractions):
        try:
            if read := alike(text, name):
                return read
        except pa.ArrowInvalid:
            continue
    text = pc.replace_substring_regex(text, _WRAPPED, r"\1")
    text = pc.if_else(_matches(text, _NULL), pa.scalar(None, pa.string()), text)
    values = _cast(text, _PLAIN)
    values = pc.coalesce(values, _cast(pc.replace_substring(text, ",", ""), _PLAIN, where=_matches(text, _THOUSANDS)))
    values, unit = _with_units(text, values, name)
    total, fraction = _fraction(text)
    values = pc.coalesce(values, fraction)
    bad = pc.and_(pc.is_valid(text), pc.is_null(values))
    return Numbers(values, total, unit, bad)


def _plain(text: pa.Array, _: str) -> Numbers | None:
    if not re.match(_PLAIN, _first(text) or "0"):  # a cast that fails is slow
        return None
    return Numbers(pc.cast(text, pa.float64()), None, "", pa.repeat(False, len(text)))


def _first(text: pa.Array) -> str:
    """Return the first text that is not null; the quick ways below hold for all texts or raise ArrowInvalid."""
    return next((item for item in text.slice(0, 1000).to_pylist() if item), "")


def _one_unit(text: pa.Array, name: str) -> Numbers | None:
    """Read a column whose texts all end with the same unit."""
    found = re.match(_UNIT, _first(text))
    if found is None or not pc.all(pc.ends_with(text, found["unit"])).as_py():
        return None
    base, factor = _unit(found["unit"], name)
    if base is None:
        return None
    length = -len(found["unit"])
    values = pc.cast(pc.utf8_slice_codeunits(text, 0, length), pa.float64())
    header = header_unit(name)
    if header and UNITS[header.lower()][0] == base:
        base, factor = "", factor / UNITS[header.lower()][1]
    return Numbers(values if factor == 1.0 else pc.multiply(values, factor), None, base, pa.repeat(False, len(text)))


def _clocks(text: pa.Array, _: str) -> Numbers | None:
    """Read a column of `H:MM:SS` alone, digit by digit from the right: text with fractions or days takes the slow way."""
    if text.null_count or not re.match(r"^\d{1,4}:\d\d:\d\d$", _first(text)):
        return None
    _, offsets, data = text.buffers()
    bounds = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    digits = np.frombuffer(data, np.uint8)
    ends, lengths = bounds[1:], np.diff(bounds)
    if lengths.min() < 7 or lengths.max() > 10 or (digits[ends - 3] != 58).any() or (digits[ends - 6] != 58).any():
        return None
    seconds = np.zeros(len(text))
    for place, factor in ((1, 1), (2, 10), (4, 60), (5, 600), (7, 3600), (8, 36_000), (9, 360_000), (10, 3_600_000)):
        given = lengths >= place
        digit = np.where(given, digits[np.maximum(ends - place, 0)] - 48, 0)
        if (digit > 9).any():
            return None
        seconds += digit * float(factor)
    return Numbers(pa.array(seconds), None, "s", pa.repeat(False, len(text)))


def _fractions(text: pa.Array, _: str) -> Numbers | None:
    """Read a column of `a/b` alone."""
    if not re.match(_FRACTION, _first(text)) or text.null_count:
        return None
    parts = pc.split_pattern(text, "/")
    if not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    numbers = pc.cast(parts.flatten(), pa.float64()).to_numpy().reshape(-1, 2)
    return Numbers(pa.array(numbers[:, 0]), pa.array(numbers[:, 1]), "", pa.repeat(False, len(text)))


def _matches(text: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(text, pattern), False)


def _cast(text: pa.Array, pattern: str, where: pa.Array | None = None) -> pa.Array:
    good = _matches(text, pattern) if where is None else where
    return pc.cast(pc.if_else(good, text, pa.scalar(None, pa.string())), pa.float64())


def _with_units(text: pa.Array, values: pa.Array, name: str) -> tuple[pa.Array, str]:
    """Add the numbers with a unit and the durations; return the column and the one unit it is now in."""
    header = header_unit(name)
    seconds = pc.coalesce(_duration(text, _CLOCK), _duration(text, _SPELLED))
    part = pc.extract_regex(text, _UNIT)
    if part.null_count == len(part) and seconds.null_count == len(seconds):
        return values, ""
    number = pc.cast(pc.replace_substring(pc.struct_field(part, "value"), ",", ""), pa.float64())
    printed = pc.struct_field(part, "unit")
    found: dict[str, pa.Array] = {"s": seconds} if seconds.null_count < len(seconds) else {}
    for word in pc.unique(printed).to_pylist():
        base, factor = _unit(word, name) if word else (None, 0.0)
        if base is None:
            continue
        scaled = pc.multiply(pc.if_else(pc.equal(printed, word), number, pa.scalar(None, pa.float64())), factor)
        found[base] = pc.coalesce(found[base], scaled) if base in found else scaled
    if not found:
        return values, ""
    unit = min(found, key=lambda base: found[base].null_count)  # the commonest kind wins, the rest is no number of this column
    column = found[unit]
    if header and UNITS[header.lower()][0] == unit:
        column, unit = pc.divide(column, UNITS[header.lower()][1]), ""
    return pc.coalesce(column, values), unit


def _unit(word: str, name: str) -> tuple[str | None, float]:
    """Return (stored unit, factor) of a printed unit; a rate such as `tok/s` is its own unit; None where it is not known."""
    unit = word.strip()
    if unit in _SHORT_TIMES and _TIME.search(name):
        return _SHORT_TIMES[unit]
    if unit == "B" != word:  # `512 B` are bytes, `7B` are billions
        return "B", 1.0
    if unit.lower() in UNITS:
        return UNITS[unit.lower()]
    return (unit, 1.0) if "/" in unit.strip("/") else (None, 0.0)


def _duration(text: pa.Array, pattern: str) -> pa.Array:
    """Return seconds where the text is a duration of at least two parts (`51s` alone is a number with a unit)."""
    parts = pc.extract_regex(text, pattern)
    if parts.null_count == len(parts):
        return pa.nulls(len(text), pa.float64())
    seconds, seen = None, None
    for key, factor in _SECONDS.items():
        field = pc.struct_field(parts, key)
        given = pc.and_(pc.is_valid(field), _matches(field, r"^(?:\d+\.?\d*|\.\d+)$"))
        value = pc.multiply(pc.cast(pc.if_else(given, field, pa.scalar("0")), pa.float64()), factor)
        seconds = value if seconds is None else pc.add(seconds, value)
        count = pc.cast(given, pa.int8())
        seen = count if seen is None else pc.add(seen, count)
    return pc.if_else(pc.fill_null(pc.greater_equal(seen, 2), False), seconds, pa.scalar(None, pa.float64()))


def _fraction(text: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Return (total, value) of `a/b` texts; total is None where there is not one."""
    part = pc.extract_regex(text, _FRACTION)
    value = pc.cast(pc.struct_field(part, "value"), pa.float64())
    if value.null_count == len(value):
        return None, value
    return pc.cast(pc.struct_field(part, "total"), pa.float64()), value

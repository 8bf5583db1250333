"""Numbers that are an instant: seconds, milli-, micro- or nanoseconds since 1970, told by their name and their size.

The years 2000 to 2100 in one unit are no such years in another, and no training runs for thirty years: a number of that
size under a name for time passed is no time passed.
"""

import math

import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import columns

FIRST, LAST = 946_684_800.0, 4_102_444_800.0  # 2000-01-01 and 2100-01-01 in seconds
SCALES = (1.0, 1e3, 1e6, 1e9)  # parts of a second that are counted
_NAMES = frozenset(
    ("t", "time", "unix", "unix_time", "unixtime", "wall_clock", "wall_clock_time", "clock", "now", "current_time", "log_time",
     "logged_at", "event_time", "created", "created_at", "asctime", "epoch_time", "time_unix", "unix_timestamp", "time_stamp")
)  # fmt: skip


def is_clock(printed: str) -> bool:
    """Say whether a number under this name may be an instant: a name for a date, for time passed, or for time and no more."""
    meaning = columns.resolve(printed)
    if meaning.position == "timestamp" or meaning.name in ("elapsed_seconds", "epoch_time_minutes"):
        return True
    last = columns.squash(printed.replace(".", "/").rpartition("/")[2])
    return last in _NAMES or last.endswith("_timestamp")


def is_instant(value: float) -> bool:
    """Say whether a number is as large as an instant in one of the units."""
    return math.isfinite(value) and any(FIRST <= value / scale < LAST for scale in SCALES)


def wall_clock(values: pa.Array) -> pa.Array:
    """Return instants as timestamp[ms]; null for what is none."""
    result = pa.nulls(len(values), pa.float64())
    for scale in SCALES:
        seconds = pc.divide(values, scale)
        good = pc.and_(pc.greater_equal(seconds, FIRST), pc.less(seconds, LAST))
        result = pc.coalesce(result, pc.if_else(good, pc.round(pc.multiply(seconds, 1000.0)), None))
    return result.cast(pa.int64()).cast(pa.timestamp("ms"))

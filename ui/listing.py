"""All runs as one table: the worst first, with the curve of each."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import isfinite

import numpy as np
import pyarrow as pa
from babel.numbers import get_currency_symbol

from analysis.compare.conditions import amount, kind_of, kinds
from server import service
from server.board import NOTHING, Line, distinct
from server.glance import Glance
from ui import outcome
from ui.compare_frames import compact
from ui.html import bar, escape, tag
from ui.text import HOUR, MINUTE, _, ago_seconds, as_utc, duration, language, number, percent
from ui.verdict import PENDING, UNJUDGED, URGENCY, VERDICTS, Look

CARDS = 60  # on a phone; a longer list is searched, not scrolled
DIFFERENCES, COMMON = 4, 0.5  # keys that are shown, if so large a part of the runs prints them
TUNED = ("lr", "batch")  # what people most often tell runs apart by
Tags = Mapping[str, Collection[str]]


def look_of(verdict: str | None) -> Look:
    """Return how the verdict of a run is shown; a run that nobody has judged yet is being checked."""
    return VERDICTS.get(verdict or "", PENDING if service.get().monitor is not None else UNJUDGED)


def ranked(lines: Sequence[Line]) -> list[Line]:
    """Return the runs with those that need attention first, then the newest."""
    order = {verdict: place for place, verdict in enumerate(URGENCY)}
    return sorted(lines, key=lambda line: order.get(line.verdict or "", order["unreadable"]))


def signed(look: Look) -> str:
    """Return a verdict as sign and word."""
    return f"{look.sign} {_(look.word)}"


def table(lines: Sequence[Line], tags: Tags, beside: Mapping[str, str | None] | None = None) -> pa.Table:
    """Return the table of runs as it is shown, one row a run in the given order; beside: how they stand to the baseline."""
    runs = [line.run for line in lines]
    now = datetime.now(UTC)
    badges, lefts, ages = cache(_badges), cache(duration), cache(ago_seconds)
    standing = {"beside": pa.array([beside.get(run.id) for run in runs], pa.string())} if beside else {}
    return pa.table(
        {
            "verdict": pa.array([badges(line.verdict, line.stale) for line in lines], pa.list_(pa.string())),
            "name": pa.array([run.name for run in runs], pa.string()),
            "curve": curves([line.spark for line in lines]),
            "loss": pa.array([_finite(line.value) for line in lines], pa.float64()),
            **standing,
            "progress": pa.array([None if (done := outcome.share(run)) is None else 100 * done for run in runs], pa.float64()),
            "left": pa.array([left(line, lefts) for line in lines], pa.string()),
            "cost": pa.array([cost(line.glance) for line in lines], pa.string()),
            "age": pa.array([ages(_coarse((now - run.updated).total_seconds())) for run in runs], pa.string()),
            "tags": pa.array([list(tags.get(run.id, ())) for run in runs], pa.list_(pa.string())),
            "differs": pa.array(differences(lines), pa.string()),
            "steps": pa.array([run.last_step for run in runs], pa.int64()),
        }
    )


def _badges(verdict: str | None, stale: bool) -> list[str]:
    """Return the verdict of a run, and that it is being looked at again."""
    look = look_of(verdict)
    waits = stale and verdict is not None and service.get().monitor is not None
    return [signed(look), signed(PENDING)] if waits else [signed(look)]


def left(line: Line, words: Callable[[float], str] = duration) -> str | None:
    """Return the time left in `words`, with the condition that it stands on, or how the run ended; None without either."""
    seconds = line.glance.left
    if line.glance.over:
        return outcome.over(line.run, as_told=seconds is not None, brief=True)
    if seconds is None:
        return None
    told = words(_coarse(seconds[1]))
    told = f"≈ {told}" if line.glance.assumed else told
    return _("{time} if finished").format(time=told) if line.glance.no_use else told


def cost(glance: Glance) -> str | None:
    """Return what a run has cost so far, of what it will cost, None where that is not known."""
    if glance.spent is None:
        return None
    sign = _sign(glance.currency)
    now = f"{sign}{glance.spent:,.2f}"
    return now if glance.over or glance.total is None else f"{now} / ≈ {sign}{glance.total:,.0f}"


@lru_cache(maxsize=64)
def _sign(currency: str) -> str:
    return str(get_currency_symbol(currency[:8], locale="en"))


def _coarse(seconds: float) -> int:
    """Return seconds as exactly as words say them."""
    unit = next((unit for unit in (HOUR, MINUTE) if seconds >= 10 * unit), 1)
    return round(seconds / unit) * unit


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def curves(points: Sequence[np.ndarray]) -> pa.Array:
    """Return small curves as an Arrow array of lists."""
    ends = np.cumsum([0, *map(len, points)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(np.concatenate([*points, NOTHING])))


def differences(lines: Sequence[Line]) -> list[str | None]:
    """Return for each run the settings that tell it apart from the others listed, `Learning rate 5e-4 · dropout 0.1`."""
    counts = {key: sum(key in line.config for line in lines) for key in distinct(lines)}
    order = sorted(counts, key=lambda key: (-counts[key], _rank(key)))
    common = _one_a_kind(key for key in order if counts[key] >= COMMON * len(lines))
    told = ([key for key in common if key in line.config] or _own(order, line) for line in lines)
    settings = ([_setting(key, line.config[key], language()) for key in keys] for keys, line in zip(told, lines, strict=True))
    return [" · ".join(parts) or None for parts in settings]


def _own(order: Sequence[str], line: Line) -> list[str]:
    """Return what tells a run apart of which the log prints none of the common settings."""
    return _one_a_kind(key for key in order if key in line.config)


def _one_a_kind(keys: Iterable[str]) -> list[str]:
    """Return the first keys, each of a condition of its own: two names for the number of parameters say it twice."""
    first: dict[str, str] = {}
    for key in keys:
        first.setdefault(kind_of(key) or key, key)
    return list(first.values())[:DIFFERENCES]


def _rank(key: str) -> int:
    """Return the place of a setting among the known conditions; the others come behind."""
    known = [*TUNED, *kinds()]
    name = kind_of(key)
    return known.index(name) if name else len(known)


@lru_cache(maxsize=4096)
def _setting(key: str, value: str, _language: str) -> str:
    """Return a setting as a comparison writes it: under the name that all logs share, numbers short."""
    name, size = kind_of(key), amount(value)
    title = _(kinds()[name].title) if name else key
    return f"{title} {compact(size) if size is not None and value.strip().lower() not in ('true', 'false') else value}"


def cards(lines: Sequence[Line], beside: Mapping[str, str | None] | None = None) -> str:
    """Return the runs as cards for a narrow screen, each a link to its health."""
    return tag("div", "".join(_card(line, (beside or {}).get(line.run.id)) for line in lines[:CARDS]), "rv-cards")


def _card(line: Line, standing: str | None) -> str:
    look, run = look_of(line.verdict), line.run
    share = outcome.share(run)
    head = tag("span", escape(signed(look)), "rv-badge") + tag("span", escape(run.name), "rv-sentence")
    facts = [_("loss {value}").format(value=number(line.value))] if line.value is not None and line.metric == "loss" else []
    facts += [standing] if standing else []
    facts += [percent(share)] if share is not None else []
    facts += [word for word in (left(line), cost(line.glance)) if word]
    facts += [ago_seconds((datetime.now(UTC) - as_utc(run.updated)).total_seconds())]
    body = (
        tag("p", head, "rv-line") + tag("p", escape(" · ".join(facts)), "rv-quiet") + (bar(share) if share is not None else "")
    )
    return tag("a", body, f"rv-card {look.css}", href=f"health?run={run.id}", target="_self")

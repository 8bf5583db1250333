"""The x of the charts of a run: which there are, and how rows and ranges go from the store's units to the drawn ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from messages import N_
from storage.types import Run
from ui.layers import CLOCK, ELAPSED, NUMBER, WHOLE, Axis
from ui.text import _

Span = tuple[float, float]
MIN_PLACES = 4  # so many different epochs, printed as fractions, make an axis
FAR = 1e14  # ms: 3,000 years; and more tokens than anybody has
NEAR = 2**53  # beyond it a float does not count whole steps


@dataclass(frozen=True)
class Course:
    """An x axis. key: in the URL; x: what the store calls it; factor: drawn value = stored value × factor."""

    key: str
    x: str
    title: str
    kind: str = WHOLE
    factor: float = 1.0
    short: str = ""

    def axis(self, *, log: bool = False) -> Axis:
        """Return how it is drawn, in the language of this session: its short title fits left of the first label."""
        return Axis(_(self.short or self.title), self.kind, log)

    def stored(self, span: Span | None) -> Span | None:
        """Return a drawn range in the units of the store."""
        return None if span is None else (span[0] / self.factor, span[1] / self.factor)


STEP = Course("step", "step", N_("Step"))
LINE = Course("line", "line", N_("Line"))
EPOCH = Course("epoch", "epoch", N_("Epoch"), NUMBER)
TOKENS = Course("tokens", "tokens_seen", N_("Tokens"), NUMBER)
TIME = Course("clock", "timestamp", N_("Wall clock"), CLOCK, short=N_("Time"))
SINCE = Course("elapsed", "elapsed_seconds", N_("Time since start"), ELAPSED, 1000.0, short=N_("h:min"))


def courses(run: Run, last: Mapping[str, float], *, fractions: int, stamped: bool) -> dict[str, Course]:
    """Return the axes that a run has, the usual one first.

    `last`: its last values; `fractions`: how many different epochs it prints; `stamped`: whether it prints a wall clock.
    """
    found = [LINE if run.last_step is None else STEP]
    steps_per_epoch = last.get("steps_per_epoch", 0)
    if run.last_step is not None and 0 < steps_per_epoch < NEAR:
        found.append(replace(EPOCH, x="step", factor=1 / steps_per_epoch))
    elif fractions >= MIN_PLACES:
        found.append(EPOCH)
    if "tokens_seen" in last:
        found.append(TOKENS)
    if stamped:
        found.append(TIME)
    if stamped or "elapsed_seconds" in last:
        found.append(SINCE)
    return {course.key: course for course in found}


def drawn(buckets: pd.DataFrame, course: Course) -> pd.DataFrame:
    """Return buckets with their x as it is drawn: times in milliseconds, everything else times its factor."""
    if course.x == "timestamp" and len(buckets):
        return buckets.assign(**{name: buckets[name].astype("int64").astype(float) for name in ("x", "x_last")})
    if course.factor == 1 or not len(buckets):
        return buckets
    return buckets.assign(**{name: buckets[name].astype(float) * course.factor for name in ("x", "x_last")})


def at_steps(
    frame: pd.DataFrame, buckets: pd.DataFrame, course: Course, columns: Iterable[str] = ("x", "x_last")
) -> pd.DataFrame:
    """Return a frame whose x are steps with the drawn x in their place, read from where the buckets have which step."""
    if course.x == "step":
        return drawn(frame, course)
    known = buckets.dropna(subset=["min_step"])
    if not len(known) or not len(frame):
        return frame.iloc[:0]
    order = np.argsort(known["min_step"].to_numpy(), kind="stable")
    steps, places = known["min_step"].to_numpy(float)[order], known["x"].to_numpy(float)[order]
    return frame.assign(**{name: np.interp(frame[name].to_numpy(float), steps, places) for name in columns})


def decades(span: Span, count: int = 4) -> list[Span]:
    """Return a range above 0 cut at its last powers of ten, for buckets that a logarithmic axis can show."""
    low, high = span
    cuts = [high / 10**power for power in range(count, 0, -1) if low < high / 10**power]
    edges = [low, *cuts, high]
    return list(zip(edges[:-1], edges[1:], strict=True))


def above_zero(buckets: pd.DataFrame) -> pd.DataFrame:
    """Return buckets for a logarithmic axis: what begins at or below 0 is drawn at the smallest x above it."""
    positive = buckets["x"][buckets["x"] > 0]
    least = float(min(1.0, positive.min())) if len(positive) else 1.0
    ends = {name: buckets[name].astype(float).clip(lower=least) for name in ("x", "x_last")}
    return buckets.assign(**ends).drop_duplicates(["metric", "segment", "x"])


def whole(buckets: pd.DataFrame) -> Span | None:
    """Return the range that buckets hold, None where that is a point."""
    span = (float(buckets["x"].min()), float(buckets["x_last"].max())) if len(buckets) else (0.0, 0.0)
    return span if span[0] < span[1] else None


def parse_span(text: str) -> Span | None:
    """Return the range that a URL names (`from~to`), None for what is none or lies beyond all times."""
    low, _sign, high = text.partition("~")
    try:
        span = float(low), float(high)
    except ValueError:
        return None
    return span if max(map(abs, span)) < FAR and span[0] < span[1] else None


def write_span(span: Span) -> str:
    """Return a range for the URL."""
    return "~".join(f"{value:.10g}" for value in span)

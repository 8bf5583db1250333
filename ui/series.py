"""Buckets from the store -> the frames that `ui.charts` draws. Numbers only: no Streamlit, no words."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.ending import FAILED
from analysis.findings import Finding, Severity
from analysis.trends import slope_of
from storage.types import Event

COLUMNS = ["x", "x_last", "segment", "mean", "low", "high", "smooth", "count", "bad", "clamped", "final", "end", "alone"]
MARKER_COLUMNS = ["x", "x_last", "glyph", "tone", "label", "finding", "line", "mark"]
MAX_MARKERS = 200
MAX_PLANNED = 40  # signs of one kind of event: a log may print a checkpoint at every step
DRAWABLE = 1e300  # beyond it a scale has no ticks, and a chart is blank
MIN_TREND = 12  # buckets
# Findings that say: from here on the loss is another one.
TURNS = {"spike_unrecovered", "level_shift", "divergence", "restart", "lr_anomaly"}
CLAMP_SPANS = 5  # values beyond the 98 % range by this many times its width are cut and labelled
FLOAT32_PARTS = 1000  # a float32 tells 16 million values apart: 16,000 parts of a span that is 1/1000 of the extreme
# Labels have seven digits from LONG_FROM to SHORT_FROM, else six (`ui.layers.TICK`): shares of the level that they tell apart.
LONG_FROM, SHORT_FROM, TOLD_APART, TOLD_APART_SHORT = 0.01, 1e6, 1e-5, 1e-4
CLAMP_WINDOWS = 16  # at most one label in each of these parts of the x range

TONE = {Severity.CRITICAL: "red", Severity.WARNING: "orange", Severity.INFO: "gray"}


def series(buckets: pd.DataFrame, metric: str, *, smoothing: float = 0.6, log: bool = False) -> pd.DataFrame:
    """Return the drawn frame of one metric (columns COLUMNS), one row a bucket, in the store's order: by launch and x.

    `smooth` is the exponential moving average of the bucket means of a launch with weight `smoothing` on the past,
    debiased (so it starts at the first value), NaN where a bucket has no finite value. With `log`, values ≤ 0 are left out.
    `end` is true in the last row, and `final` the last value there, NaN elsewhere.
    """
    rows = buckets[buckets["metric"].to_numpy() == metric]
    segment = rows["segment"].to_numpy()
    mean, low, high = (rows[name].to_numpy(dtype=float, na_value=np.nan) for name in ("mean", "min", "max"))
    if log:
        mean, low, high = (np.where(values > 0, values, np.nan) for values in (mean, low, high))
    # The mean of equal numbers may differ from them in its last digit.
    mean = np.where(np.isnan(mean), mean, np.fmin(np.fmax(mean, low), high))
    low, high = (np.clip(values, -DRAWABLE, DRAWABLE) for values in (low, high))
    smooth = np.clip(debiased_mean(fenced(mean), segment, smoothing), -DRAWABLE, DRAWABLE)
    final, end = np.full(len(rows), np.nan), np.zeros(len(rows), bool)
    end[-1:] = True
    final[-1:] = rows["last"].to_numpy(dtype=float, na_value=np.nan)[-1:]
    columns = {"x": rows["x"].to_numpy(), "x_last": rows["x_last"].to_numpy(), "segment": segment}
    columns |= {"mean": mean, "low": low, "high": high, "smooth": smooth}
    columns |= {"count": rows["count"].to_numpy(), "bad": rows["nonfinite"].to_numpy()}
    columns |= {"clamped": np.full(len(rows), np.nan), "final": final, "end": end, "alone": _alone(smooth, segment)}
    return pd.DataFrame(columns)


def is_raw(frame: pd.DataFrame) -> bool:
    """Say whether a frame has mostly single rows, and a smooth line that is not theirs: then they are drawn themselves."""
    moved = np.abs(frame["smooth"] - frame["high"]) > 0
    return len(frame) > 0 and bool((frame["count"] <= 1).mean() > 0.5 and moved.any())


def _alone(values: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Return a bool array (n,): True where a value has no neighbour to draw a line to."""
    drawn = np.isfinite(values)
    joined = drawn[1:] & drawn[:-1] & (segments[1:] == segments[:-1])
    return drawn & ~np.append(joined, False) & ~np.insert(joined, 0, False)


def fenced(values: np.ndarray) -> np.ndarray:
    """Return values (n,) held within ten times the span of their middle nine tenths: one of 1e308 must not bend the rest."""
    finite = values[np.isfinite(values)]
    if len(finite) < 20:
        return values
    with np.errstate(over="ignore"):
        low, high = np.quantile(finite, [0.05, 0.95])
        reach = 10 * (high - low)
    return np.clip(values, low - reach, high + reach) if 0 < reach < np.inf else values


def debiased_mean(values: np.ndarray, segments: np.ndarray, weight: float) -> np.ndarray:
    """Return the exponential moving average (n,) with `weight` on the past, begun anew in each segment.

    Divided by the weights seen so far, so that it starts at the first value; values that are not finite are passed over. It
    stays within the values seen so far, whose last digit rounding would miss: a constant is drawn as one.
    """
    smooth = np.full(len(values), np.nan)
    total = mass = 0.0
    low = high = 0.0
    current = None
    for i, (value, segment) in enumerate(zip(values.tolist(), segments.tolist(), strict=True)):
        if segment != current:
            total, mass, current = 0.0, 0.0, segment
        if math.isfinite(value):
            low, high = (value, value) if not mass else (min(low, value), max(high, value))
            total = weight * total + (1 - weight) * value
            mass = weight * mass + (1 - weight)
            smooth[i] = min(max(total / mass, low), high)
    return smooth


def clamp(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Cut what lies far outside the common range of a panel's series, and keep the hidden extremes in `clamped`."""
    low, high = limits(frames)
    return [_clamped(frame, low, high) for frame in frames]


def limits(frames: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """Return the y range beyond which values are cut: ±∞ unless extremes would flatten the rest of the curve."""
    highs = np.concatenate([frame["high"].to_numpy(float) for frame in frames] or [np.empty(0)])
    lows = np.concatenate([frame["low"].to_numpy(float) for frame in frames] or [np.empty(0)])
    highs, lows = highs[np.isfinite(highs)], lows[np.isfinite(lows)]
    if not highs.size or not lows.size:
        return -np.inf, np.inf
    bottom, top = np.quantile(lows, 0.02), np.quantile(highs, 0.98)
    with np.errstate(over="ignore"):  # from -1e308 to 1e308
        span = float(top - bottom)
    if not np.isfinite(span) or span <= 0:
        return -np.inf, np.inf
    high = top + span if highs.max() > top + CLAMP_SPANS * span else np.inf
    low = bottom - span if lows.min() < bottom - CLAMP_SPANS * span else -np.inf
    return float(low), float(high)


def narrow(frames: Sequence[pd.DataFrame]) -> tuple[float, float] | None:
    """Return a y range for a panel whose values differ by less than its labels could say, None for all others.

    A single value needs none: it gets one label.
    """
    values = np.concatenate([frame[name].to_numpy(float) for frame in frames for name in ("low", "high")] or [np.empty(0)])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    level = max(abs(low), abs(high))
    least = level * (TOLD_APART if LONG_FROM <= level < SHORT_FROM else TOLD_APART_SHORT)
    if not 0 < high - low < least:
        return None
    return low - least, high + least


def _clamped(frame: pd.DataFrame, low: float, high: float) -> pd.DataFrame:
    if np.isinf(low) and np.isinf(high):
        return frame
    lows, highs = frame["low"].to_numpy(), frame["high"].to_numpy()
    hidden = np.where(highs > high, highs, np.where(lows < low, lows, np.nan))
    shown = np.full(len(hidden), np.nan)
    for part in np.array_split(np.arange(len(hidden)), CLAMP_WINDOWS):
        beyond = part[np.isfinite(hidden[part])]
        if len(beyond):
            farthest = beyond[np.argmax(np.abs(hidden[beyond]))]
            shown[farthest] = hidden[farthest]
    cut = {name: np.clip(frame[name].to_numpy(), low, high) for name in ("mean", "low", "high", "smooth")}
    return frame.assign(**cut, clamped=shown)


def compact(frame: pd.DataFrame) -> pa.Table:
    """Return the frame as Arrow in half the bytes, where nothing is lost that a chart shows (float32, int32)."""
    return pa.table({str(name): _small(values.to_numpy()) for name, values in frame.items()})


def _small(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        extreme = np.nanmax(np.abs(values), initial=0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # from -1e308 to 1e308, or from -inf to inf
            span = np.nanmax(values, initial=-extreme) - np.nanmin(values, initial=extreme)
        fine = extreme / FLOAT32_PARTS < span or not span  # 24 bits are enough to tell the values apart
        return values.astype(np.float32) if extreme < 1e38 and fine else values
    if values.dtype.kind in "iu":
        return values.astype(np.int32) if not len(values) or np.abs(values).max() < 2**31 else values
    return values


def markers(findings: Iterable[tuple[int, Finding, str]], events: Iterable[Event], end: float) -> pd.DataFrame:
    """Return the markers (columns MARKER_COLUMNS) of findings, each with its number and sentence, and of events with a step.

    `end` is the last x, up to which an open finding reaches. `line` is where the log says it, 0 where it does not.
    """
    rows: list[tuple] = []
    for number, finding, title in findings:
        if finding.first_step is not None:
            last = end if finding.last_step is None else finding.last_step
            tone = TONE[finding.severity]
            rows.append((finding.first_step, last, "▼", tone, title, number, finding.first_line or 0))
    rows = rows[:MAX_MARKERS]
    by_kind: dict[str, list[tuple]] = {}
    for event in events:
        if event.step is not None:
            glyph, tone = _sign(event.kind)
            by_kind.setdefault(glyph, []).append((event.step, event.step, glyph, tone, event.text[:120], -1, event.line))
    for same in by_kind.values():
        rows += same[:: -(-len(same) // MAX_PLANNED)]
    return pd.DataFrame([(*row, mark) for mark, row in enumerate(rows)], columns=MARKER_COLUMNS)


def _sign(kind: str) -> tuple[str, str]:
    if kind in FAILED:
        return "✖", "red"
    if kind.startswith("checkpoint"):
        return "◆", "gray"
    if kind in {"restart", "resume"}:
        return "⟳", "gray"
    return ("○", "gray") if kind.startswith("evaluation") else ("•", "gray")


def last_turn(findings: Iterable[Finding], segment: int | None) -> int | None:
    """Return the step at which the loss last left its course for good, None where it did not."""
    turns = [
        finding.first_step
        for finding in findings
        if finding.kind in TURNS and finding.first_step is not None and segment in (None, finding.segment)
    ]
    return max(turns, default=None)


def trend(buckets: pd.DataFrame, *, since: int | None = None) -> tuple[float, int] | None:
    """Return the relative change of one metric over its recent stretch and the steps it is for: 1,000, else less.

    The stretch is the later half of what there is, or of what there is since step `since`: never across a jump. None where
    it is too short, or so wild that a rate of change says nothing.
    """
    rows = buckets[["x", "mean", "segment"]].dropna()
    rows = rows[rows["segment"] == rows["segment"].max()]
    rows = rows if since is None else rows[rows["x"] > since]
    if len(rows) < MIN_TREND:
        return None
    x = rows["x"].to_numpy(float)
    per_1000 = slope_of(x, rows["mean"].to_numpy(float))[0]
    steps = int(10 ** min(3, max(0, math.floor(math.log10(max(x[-1] - x[0], 2) / 2)))))
    if per_1000 is None or not math.isfinite(per_1000) or abs(per_1000) * steps / 1000 > 10:
        return None
    return per_1000 * steps / 1000, steps

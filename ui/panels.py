"""Which metrics of a run stand in which panel, and the chart with its data: frames from the store, spec from `ui.charts`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storage.types import Column
from ui import charts, evaluations, series, state
from ui.text import _

HEIGHTS = {
    "reward": 104,
    "length": 84,
    "loss": 178,
    "aux": 56,
    "rate": 84,
    "gradient": 104,
}  # px; all of them fit a window 900 px high
MORE_PX = 84  # of a panel that a person asked for
STACK_PX = 380  # what fewer panels share between them
BUCKETS = 500  # a series: about two pixels each on a wide screen
WITH_LOSS = ("logits_loss", "eval_loss")
NAMED = 0.12  # of the width: a phase that is narrower has no room for its name
EXACT = {"lr", "epoch_time_minutes"}  # set by a rule, not noisy: smoothing would only draw what never was
TIMES = ("step_time_seconds", "epoch_time_minutes", "tokens_per_second", "samples_per_second")


def metrics_of(columns: Sequence[Column]) -> dict[str, tuple[str, ...]]:
    """Return the metrics of each panel in order: loss, aux loss, learning rate, gradient norm (else a time)."""
    names = {column.name: column.role for column in columns}
    losses = [name for name in ("loss", *WITH_LOSS) if name in names]
    losses = losses or ["policy_loss"] * ("policy_loss" in names)
    losses = losses or [name for name, role in names.items() if role in ("loss", "main_loss", "eval_loss")][:1]
    last = next((name for name in ("grad_norm", *TIMES) if name in names), None)
    last = last or next((name for name, role in names.items() if role in ("gradient", "time", "throughput")), None)
    chosen = {
        "reward": ("reward",) if "reward" in names else (),
        "length": ("response_length",) if "reward" in names and "response_length" in names else (),
        "loss": tuple(losses),
        "aux": ("aux_loss",) if "aux_loss" in names else (),
        "rate": ("lr",) if "lr" in names and "reward" not in names else (),
        "gradient": (last,) if last else (),
    }
    if not any(chosen.values()):
        hardware = [name for name, role in names.items() if role == "hardware"][:3]
        chosen = {panel: (name,) for panel, name in zip(("loss", "rate", "gradient"), hardware or names, strict=False)}
    return {panel: metrics for panel, metrics in chosen.items() if metrics}


def flat(panels: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the metrics of all panels in order."""
    return [name for names in panels.values() for name in names]


def worth_drawing(panels: dict[str, tuple[str, ...]], buckets: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Leave out the aux panel of a dense model, whose log prints 0 in every line."""
    aux = buckets.loc[buckets["metric"] == "aux_loss"]
    idle = bool(((aux["min"] == 0) & (aux["max"] == 0) & (aux["nonfinite"] == 0)).all())
    return {panel: metrics for panel, metrics in panels.items() if not (panel == "aux" and idle)}


def with_evaluations(panels: dict[str, tuple[str, ...]], buckets: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the panels with the evaluations of their metrics as further series, where buckets have them."""
    return {panel: evaluations.beside(metrics, buckets) for panel, metrics in panels.items()}


def frames_of(
    buckets: pd.DataFrame, panels: dict[str, tuple[str, ...]], *, smoothing: float, log: bool, cut: bool
) -> dict[str, list[pd.DataFrame]]:
    """Return the drawn frames of each panel's metrics."""
    frames = {
        panel: [
            series.series(
                buckets,
                metric,
                smoothing=0.0 if metric in EXACT or evaluations.is_one(metric) else smoothing,
                log=log and panel in ("loss", "aux"),
            )
            for metric in metrics
        ]
        for panel, metrics in panels.items()
    }
    return {panel: series.clamp(drawn) if cut else drawn for panel, drawn in frames.items()}


def spec(
    panels: dict[str, tuple[str, ...]],
    frames: dict[str, list[pd.DataFrame]],
    markers: pd.DataFrame,
    *,
    log: bool,
    domain: tuple[float, float] | None,
    axis: charts.Axis | None = None,
    phases: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return the Vega-Lite spec with its datasets; the spec itself is cached, the data changes under it."""
    markers = _within(markers, domain)
    grow = max(1.0, STACK_PX / sum(height(panel) for panel in panels))
    drawn, datasets = [], {charts.MARKS: series.compact(markers)}
    for panel, metrics in panels.items():
        names = [f"{panel}{i}" for i in range(len(metrics))]
        datasets |= {name: series.compact(frame) for name, frame in zip(names, frames[panel], strict=True)}
        lines = tuple(
            charts.Series(name, evaluations.label(metric), series.is_raw(frame))
            for name, metric, frame in zip(names, metrics, frames[panel], strict=True)
        )
        several = len({metric for metric in metrics if not evaluations.is_one(metric)}) > 1
        title = _("Loss") if panel == "loss" and several else state.metric_title(metrics[0])
        reach = series.narrow(frames[panel])
        drawn.append(charts.Panel(title, lines, round(height(panel) * grow), log and panel in ("loss", "aux"), reach))
    band = phases is not None and len(phases) > 0
    if phases is not None and band:
        datasets[charts.PHASES] = series.compact(_named(_within(phases, domain)))
    return {**charts.stack(tuple(drawn), words(), axis, domain, phases=band), "datasets": datasets}


def _named(phases: pd.DataFrame) -> pd.DataFrame:
    """Return the phases without the names that would run into the next one."""
    whole = phases["x_last"].max() - phases["x"].min()
    narrow = phases["x_last"] - phases["x"] < NAMED * whole
    return phases.assign(label=phases["label"].mask(narrow, ""))


def _within(frame: pd.DataFrame, domain: tuple[float, float] | None) -> pd.DataFrame:
    """Return what reaches into a range, cut at its ends."""
    if domain is None:
        return frame
    inside = frame[(frame["x_last"] >= domain[0]) & (frame["x"] <= domain[1])]
    return inside.assign(x=inside["x"].clip(*domain), x_last=inside["x_last"].clip(*domain))


def height(panel: str) -> int:
    """Return the height of a panel in px."""
    return HEIGHTS.get(panel, MORE_PX)


def explained(panel: str, metric: str) -> str:
    """Return which sentence for beginners fits a panel (see ui/beginner.py)."""
    if panel == "gradient" and metric in TIMES:
        return "throughput" if metric.endswith("per_second") else "time"
    return "rl" if panel in ("reward", "length") else panel


def with_more(panels: dict[str, tuple[str, ...]], more: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the panels with one more for each further metric."""
    return panels | {f"more_{index}_": (name,) for index, name in enumerate(more)}


def words() -> charts.Words:
    """Return the words of a chart in the language of this session."""
    return charts.Words(
        x_last=_("to"),
        smooth=_("Smoothed"),
        mean=_("Mean"),
        low=_("Lowest"),
        high=_("Highest"),
        count=_("Points"),
        bad=_("NaN or infinite"),
        event=_("Event"),
    )

"""A wrong spec is a silent blank chart: every spec is compiled, in the colours of light and of dark."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import vl_convert

from ui import charts, panels, series

CONFIG = tomllib.loads((Path(__file__).parents[2] / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
NAMES = ("blue", "orange", "green", "violet", "red", "gray")


def buckets(**metrics) -> pd.DataFrame:
    n = 40
    parts = []
    for name, level in metrics.items():
        mean = level * (1 + np.exp(-np.arange(n) / 9))
        mean[20] = np.nan
        frame = pd.DataFrame({"metric": name, "segment": np.repeat([0, 1], n // 2), "x": np.arange(n) * 5, "mean": mean})
        frame = frame.assign(x_last=frame["x"] + 4, min=mean * 0.9, max=mean * 1.1, count=5, nonfinite=0, last=mean)
        frame.loc[20, "nonfinite"] = 5
        frame.loc[30, "max"] = level * 400
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def compiled(spec: dict, theme: str) -> str:
    """Compile a spec as the browser would, with the theme's colours for the names; return the SVG."""
    datasets = {name: json.loads(table.to_pandas().to_json(orient="records")) for name, table in spec["datasets"].items()}
    text = json.dumps({**spec, "datasets": datasets})
    for name in NAMES:
        text = text.replace(f'"{name}"', f'"{CONFIG["theme"][theme][f"{name}Color"]}"')
    return vl_convert.vegalite_to_svg(json.loads(text), vl_version="6.4")


MARKS = pd.DataFrame(
    [[20, 60, "▼", "red", "it's a \\ spike", 0, 7, 0], [150, 150, "◆", "gray", "saved", -1, 9, 1]],
    columns=series.MARKER_COLUMNS,
)
RUNS = {
    "moe": {"loss": 3.0, "logits_loss": 2.9, "aux_loss": 0.02, "lr": 5e-4, "grad_norm": 1.0},
    "dense": {"loss": 3.0, "lr": 5e-4, "step_time_seconds": 0.3},
    "only_loss": {"loss": 3.0},
    "odd_names": {"it's \\ a.metric[0]": 1.0},
    "negative": {"loss": -3.0, "grad_norm": 1e30},
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
@pytest.mark.parametrize("domain", [None, (40, 120)], ids=["all", "zoom"])
@pytest.mark.parametrize("metrics", RUNS.values(), ids=RUNS)
def test_every_stack_compiles_and_draws(monkeypatch, metrics, theme, log, domain):
    chosen = {panel: (name,) for panel, name in zip(("loss", "aux", "rate", "gradient"), metrics, strict=False)}
    monkeypatch.setattr(panels.state, "metric_title", str)
    monkeypatch.setattr(panels, "words", charts.Words)
    frames = panels.frames_of(buckets(**metrics), chosen, smoothing=0.6, log=log, cut=True)
    svg = compiled(panels.spec(chosen, frames, MARKS, log=log, domain=domain), theme)
    assert svg.count("mark-line") >= len(chosen)
    assert "✕" in svg  # the NaN
    assert ">Step<" in svg  # an axis says what it is
    assert "NaN,NaN" not in svg


AXES = [
    charts.Axis("Line"),
    charts.Axis("Tokens", "number"),
    charts.Axis("Wall clock", "clock"),
    charts.Axis("Time since the start (h:min)", "elapsed"),
]


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.kind)
def test_every_axis_compiles_with_phases_above(axis):
    frame = series.series(buckets(loss=3.0), "loss")
    scale = 3_600_000 if axis.type == "temporal" else 1
    frame = frame.assign(x=frame["x"] * float(scale), x_last=frame["x_last"] * float(scale))
    phases = pd.DataFrame({"x": [0.0], "x_last": [60.0 * scale], "label": ["Warm-up"], "text": ["slow"], "shade": [1]})
    panel = charts.Panel("Loss", (charts.Series("loss0", "loss"),))
    zoomed = charts.stack((panel,), charts.Words(), axis, (0, 150 * scale))
    assert compiled({**zoomed, "datasets": {"loss0": series.compact(frame), charts.MARKS: series.compact(MARKS)}}, "light")
    spec = charts.stack((panel,), charts.Words(), axis, phases=True)
    marks = MARKS.assign(x=MARKS["x"] * scale, x_last=MARKS["x_last"] * scale)
    data = {"loss0": frame, charts.MARKS: marks, charts.PHASES: phases}
    svg = compiled({**spec, "datasets": {name: series.compact(each) for name, each in data.items()}}, "light")
    assert f">{axis.title}<" in svg
    assert ">Warm-up<" in svg
    assert {"clock": ">Jan 05<", "elapsed": ">144:00<", "number": ">100<", "whole": ">100<"}[axis.kind] in svg


def test_a_spec_is_what_altair_calls_valid_and_the_same_object_again():
    import altair

    panels = (charts.Panel("Loss", (charts.Series("loss0", "loss"),)), charts.Panel("lr", (charts.Series("rate0", "lr"),)))
    spec = charts.stack(panels, charts.Words(), domain=(3, 9))
    altair.VConcatChart.from_dict(spec).to_dict()
    assert charts.stack(panels, charts.Words())["vconcat"][0] is charts.stack(panels, charts.Words())["vconcat"][0]


def test_without_events_and_without_data_it_still_compiles(monkeypatch):
    monkeypatch.setattr(panels.state, "metric_title", str)
    monkeypatch.setattr(panels, "words", charts.Words)
    frames = panels.frames_of(buckets(loss=3.0).iloc[:0], {"loss": ("loss",)}, smoothing=0.6, log=False, cut=True)
    assert compiled(panels.spec({"loss": ("loss",)}, frames, MARKS.iloc[:0], log=False, domain=None), "light")


def test_a_chart_of_full_width_stays_below_150_kb(monkeypatch):
    monkeypatch.setattr(panels.state, "metric_title", str)
    monkeypatch.setattr(panels, "words", charts.Words)
    names = ("loss", "logits_loss", "aux_loss", "lr", "grad_norm")
    rows = [buckets(**{name: 2.5}).sample(panels.BUCKETS, replace=True, random_state=1) for name in names]
    chosen = {"loss": names[:2], "aux": names[2:3], "rate": names[3:4], "gradient": names[4:]}
    frames = panels.frames_of(pd.concat(rows), chosen, smoothing=0.6, log=False, cut=True)
    spec = panels.spec(chosen, frames, MARKS, log=False, domain=None)
    data = sum(table.nbytes for table in spec["datasets"].values())
    assert data + len(json.dumps({**spec, "datasets": {}})) < 150_000


def test_panels_are_chosen_by_what_the_log_prints():
    from storage.types import Column

    def columns(*pairs):
        return [Column(name, name, "", role) for name, role in pairs]

    moe = columns(
        ("loss", "loss"), ("logits_loss", "main_loss"), ("aux_loss", "aux_loss"), ("lr", "rate"), ("grad_norm", "gradient")
    )
    assert panels.metrics_of(moe) == {
        "loss": ("loss", "logits_loss"),
        "aux": ("aux_loss",),
        "rate": ("lr",),
        "gradient": ("grad_norm",),
    }
    timed = panels.metrics_of(columns(("loss", "loss"), ("step_time_seconds", "time")))
    assert timed == {"loss": ("loss",), "gradient": ("step_time_seconds",)}
    assert panels.metrics_of(columns(("policy_loss", "loss"))) == {"loss": ("policy_loss",)}
    assert panels.metrics_of(columns(("bleu", "evaluation"))) == {"loss": ("bleu",)}
    watts = panels.metrics_of(columns(("index", None), ("gpu_power_watts", "hardware")))
    assert watts == {"loss": ("gpu_power_watts",)}


def test_the_aux_panel_of_a_dense_model_is_left_out():
    zero = buckets(aux_loss=0.0).assign(nonfinite=0, mean=0.0, min=0.0, max=0.0)
    assert "aux" not in panels.worth_drawing({"loss": ("loss",), "aux": ("aux_loss",)}, zero)
    assert "aux" in panels.worth_drawing({"loss": ("loss",), "aux": ("aux_loss",)}, buckets(aux_loss=0.1))


@pytest.mark.parametrize(
    ("title", "names", "told"),
    [
        ("Learning rate", ("lr",), ["lr  "]),
        ("Time of the epoch, as printed (min)", ("epoch_time_minutes",), [""]),
        ("打印的轮次用时（分钟）", ("epoch_time_minutes",), [""]),
        (
            "Loss",
            ("logits_loss", "a_name_of_a_loss_that_is_much_too_long"),
            ["logits_loss  ", "a_name_of_a_loss_that_is_much_too_long  "],
        ),
    ],
)
def test_a_title_and_a_name_share_the_line_above_a_panel_where_both_have_room(title, names, told):
    panel = charts.Panel(title, tuple(charts.Series(name, name) for name in names))
    layers = charts.stack((panel,), charts.Words())["vconcat"][0]["layer"]
    readouts = [each["calculate"] for layer in layers for each in layer.get("transform", ()) if each.get("as") == "readout"]
    assert [text.split("'")[1] if text.startswith("'") else "" for text in readouts] == told


def labels(values: np.ndarray, *, log: bool) -> list[str]:
    """Return the labels of the y axis of a panel with these values."""
    at = np.arange(len(values))
    rows = pd.DataFrame({"metric": "m", "segment": 0, "x": at, "x_last": at, "mean": values, "min": values, "max": values})
    frame = series.series(rows.assign(count=1, nonfinite=0, last=values), "m", log=log)
    panel = charts.Panel("m", (charts.Series("m0", "m"),), 178, log, series.narrow([frame]))
    data = {"m0": series.compact(frame), charts.MARKS: series.compact(MARKS)}
    svg = compiled({**charts.stack((panel,), charts.Words()), "datasets": data}, "light")
    axes = [re.findall(r"<text[^>]*>([^<]*)</text>", group) for group in re.findall(r"role-axis-label(.*?)</g>", svg, re.S)]
    return axes[-1]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("spread", [0, 1e-16, 1e-9, 1e-7, 3e-6, 1e-5, 1e-4, 1e-2])
@pytest.mark.parametrize("level", [0.3, 0.512, 7.0, 9.1e5, 1.1e6, 123456789.0, 1e16, 5e-4, 0.0100001])
def test_no_two_labels_of_an_axis_are_the_same(level, spread, log):
    told = labels(level * (1 + spread * np.sin(np.arange(60))), log=log)
    assert told
    assert len(told) == len(set(told))

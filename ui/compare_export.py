"""What can be taken along of a comparison: its table as CSV, its curves as a picture, all of it as one HTML page."""

import base64
import io
import json
from typing import Any

import pandas as pd
import streamlit as st

from analysis.compare.as_dict import as_dict
from analysis.compare.comparison import Comparison
from storage.reading.config import blocks
from ui import compare as words
from ui import compare_charts, html, picture
from ui.compare import sentence
from ui.compare_frames import labels, ordered
from ui.html import escape, tag
from ui.text import _, language, say


def popover(told: Comparison, frame: pd.DataFrame, bands: pd.DataFrame, x: str, y: str, *, log: bool) -> None:
    """Offer the files; each is made when it is asked for."""
    box = st.popover(_("Export"), icon=":material/download:", key="export", on_change="rerun")
    if not box.open:
        return
    theme = "dark" if st.context.theme.type == "dark" else "light"

    def drawn(kind: str) -> bytes:
        return picture_of(told, _spec(told, frame, bands, x, y, log=log), theme, kind)

    with box:
        html.quiet(_("The comparison as a table"))
        _file("CSV", to_csv(told), "comparison.csv", "text/csv")
        _file("JSON", to_json(told), "comparison.json", "application/json")
        _file(_("Configurations"), to_configs(told), "configurations.json", "application/json")
        html.quiet(_("The curves as they are drawn"))
        _file("PNG", lambda: drawn("png"), "comparison.png", "image/png")
        _file("SVG", lambda: drawn("svg"), "comparison.svg", "image/svg+xml")
        html.quiet(_("All of it on one page"))
        report = lambda: to_html(told, drawn("svg") if len(frame) else b"")  # noqa: E731
        _file(_("HTML report"), report, "comparison.html", "text/html")


def _file(label: str, data: Any, name: str, mime: str) -> None:
    st.download_button(label, data, name, mime, key=f"export-{name}", on_click="ignore", width="stretch")


def picture_of(told: Comparison, spec: dict[str, Any], theme: str, kind: str) -> bytes:
    """Return the chart as a picture (`png`, `svg`) in a theme, its sentence above it. Raises NotDrawn."""
    whole = picture.whole(spec, sentence(told.sentence), theme)
    ink, faint = picture.colours(theme)["ink"], {"gridOpacity": 0.25, "domainOpacity": 0.5, "tickOpacity": 0.5}
    config = whole["config"]
    config |= {"legend": {"labelColor": ink}, "header": {"labelColor": ink}, "axis": {**config["axis"], **faint}}
    return picture.render(whole, kind)


def _spec(told: Comparison, frame: pd.DataFrame, bands: pd.DataFrame, x: str, y: str, *, log: bool) -> dict[str, Any]:
    """Return the chart with a legend and its data inside."""
    if "facet" in frame:
        base = labels(told)[told.base]
        spec = compare_charts.small_multiples(x, y, _("Run"), _("Base: {run}").format(run=base), log=log, columns=3)
        frame = frame.assign(facet=frame["facet"].map(lambda name: "\n".join(compare_charts.lines_of(name))))
    else:
        first = frame.drop_duplicates("order").sort_values("order")
        names = tuple(first["label"])
        spec = compare_charts.curves(tuple(first["order"].tolist()), x, y, _("Run"), log=log, names=names)
    return {**spec, "datasets": {compare_charts.CURVES: _Records(frame), compare_charts.BANDS: _Records(bands)}}


class _Records:
    """A frame that gives its rows as the picture wants them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return [{str(key): value for key, value in row.items()} for row in self._frame.to_dict("records")]


def to_csv(told: Comparison) -> bytes:
    """Return the numbers behind the figures, one row a run: plain numbers, units in the names, intervals as low and high."""
    named, axis = labels(told), told.view.axis
    pairs = {pair.run: pair for pair in told.pairs}
    rows = []
    for n in ordered(told):
        side, one = told.sides[n], told.numbers[n]
        row: dict[str, Any] = {"run": side.subject.id, "name": side.subject.name, "differs": named[n], "metric": one.metric}
        row |= {"first": one.first, "end_mean": one.end, "end_points": one.end_points}
        row |= _triple("fall", one.fall) | _triple("step_seconds", one.step_seconds)
        for reached, span in (one.reached or {}).items():
            row |= _triple(f"{reached}_to_{words.target_words(told)}", span)
        row |= {"throughput": one.throughput, "throughput_unit": one.unit, "memory_bytes": one.memory, "hours": one.hours}
        row |= {"gpu_hours": one.gpu_hours, "money": one.money, "goodput": one.goodput}
        found = pairs[n].differences.get(axis or "") if n in pairs else None
        if found is not None and found.value is not None:
            low, high = (None, None) if found.error is None else found.interval
            row |= {"axis": axis, "difference_to_base": found.relative, "low": low, "high": high}
        row["verdict"] = pairs[n].kind if n in pairs else "base"
        rows.append(row | {f"setting: {line.key}": line.values[n] for line in told.diff.rows if line.varied})
    return pd.DataFrame(rows).to_csv(index=False).encode()


def _triple(name: str, span: tuple[float, float, float] | None) -> dict[str, float | None]:
    low, middle, high = span or (None, None, None)
    return {f"{name}_low": low, name: middle, f"{name}_high": high}


def to_json(told: Comparison) -> bytes:
    """Return what `cli.py compare --json` prints, with the sentences as templates and in English."""
    return json.dumps(as_dict(told), ensure_ascii=False, indent=1, default=str).encode()


def to_configs(told: Comparison) -> bytes:
    """Return the whole configuration of each run, in the four blocks environment, data, training, metrics."""
    found = {
        side.subject.id: {"name": side.subject.name, **blocks(side.subject.config), "added": dict(side.subject.given)}
        for side in told.sides
    }
    return json.dumps(found, ensure_ascii=False, indent=1, default=str).encode()


def to_html(told: Comparison, curves: bytes) -> bytes:
    """Return one HTML page that needs nothing else: verdict, fairness, curves, figures, expectations, settings."""
    style = html.STYLE.read_text(encoding="utf-8")
    out = io.StringIO()
    shown, rest = words.reasons(told)
    settings = words.settings_frame(told)
    parts = [
        tag("h1", escape(_("Comparison")), "rv-title"),
        words.verdict(told),
        words.forest(told) if told.pairs else "",
        tag("p", escape(words.spread_words(told)), "rv-quiet"),
        tag("h2", escape(_("May one say so?")), "rv-section"),
        words.chips(told) + shown + rest,
        tag("h2", escape(_("Curves")), "rv-section"),
        f'<img alt="" style="max-width:100%" src="data:image/svg+xml;base64,{base64.b64encode(curves).decode()}">'
        if curves
        else "",
        tag("h2", escape(_("Figures")), "rv-section"),
        words.figures_table(told),
        words.equal_table(told),
        tag("h2", escape(_("Expected and observed")), "rv-section"),
        "".join(words.expected(told)),
        tag("h2", escape(_("Settings that differ")), "rv-section"),
        tag("div", settings.to_html(index=False, escape=True, border=0, classes="rv-table rv-all"), "rv-scroll", tabindex="0"),
    ]
    out.write(f'<!doctype html><html lang="{language().replace("_", "-")}"><head><meta charset="utf-8">')
    out.write(f"<title>{escape(say(told.sentence))[:200]}</title><style>:root{{color-scheme:light dark}}")
    out.write(".rv-table th,.rv-table td{white-space:normal!important;vertical-align:top}")
    out.write(".rv-all{max-width:none}.rv-all th,.rv-all td{overflow-wrap:anywhere;min-width:3.6rem;padding-right:.6rem}")
    out.write("body{font:15px/1.5 system-ui,sans-serif;max-width:1680px;margin:2rem auto;padding:0 1rem;color:var(--rv-text)}")
    out.write(".rv-icon{display:none!important}" + style + "</style></head><body>" + "".join(parts) + "</body></html>")
    return out.getvalue().encode()

"""Runs taken together by project, tag or a setting: how many, how many need attention, mean and min–max of their losses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from server.board import Line
from ui.filters import OF_PROJECT, OF_TAG
from ui.listing import Tags
from ui.search import ATTENTION, Term
from ui.text import _

PARTS = 32  # of a curve
MAX_DRAWN = 4  # groups with a curve; a colour each
COLOURS = ["blue", "orange", "green", "violet"]
DATA = "groups"
NONE = "–"  # the group of the runs that have no such thing


def together(lines: Sequence[Line], by: str, tags: Tags) -> dict[str, list[Line]]:
    """Return the runs by the value they share, the largest group first; a run with several tags stands in each."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        for value in _values(line, by, tags):
            found.setdefault(value, []).append(line)
    return dict(sorted(found.items(), key=lambda pair: (pair[0] == NONE, -len(pair[1]))))


def _values(line: Line, by: str, tags: Tags) -> Sequence[str]:
    if by == OF_PROJECT:
        return [line.project or NONE]
    if by == OF_TAG:
        return list(tags.get(line.run.id, ())) or [NONE]
    return [line.config.get(by, NONE)]


def term(by: str, value: str) -> Term:
    """Return the condition that a group's runs satisfy."""
    return Term(by.rstrip(":"), ":", value) if by in (OF_PROJECT, OF_TAG) else Term(by, "=", value)


def table(groups: dict[str, list[Line]]) -> pd.DataFrame:
    """Return one row a group. `loss` is the last value of the headline metric of its runs."""
    rows = []
    for value, lines in groups.items():
        losses = np.array([line.value for line in lines if line.value is not None], float)
        losses = losses[np.isfinite(losses)]
        spent = [line.glance.spent for line in lines if line.glance.spent is not None]
        rows.append(
            {
                "value": value,
                "runs": len(lines),
                "attention": sum(line.verdict in ATTENTION for line in lines),
                "mean": losses.mean() if losses.size else None,
                "low": losses.min() if losses.size else None,
                "high": losses.max() if losses.size else None,
                "spent": sum(spent) if spent else None,
                "curve": course(lines)[0].tolist(),
            }
        )
    return pd.DataFrame(rows)


def course(lines: Sequence[Line]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, lowest and highest curve over the share of each run's own length, PARTS points each."""
    shares = np.linspace(0, 1, PARTS)
    curves = [line.curve[np.isfinite(line.curve)] for line in lines]
    drawn = [np.interp(shares, np.linspace(0, 1, len(curve)), curve) for curve in curves if len(curve) > 1]
    if not drawn:
        return np.empty(0), np.empty(0), np.empty(0)
    stack = np.stack(drawn)
    return stack.mean(axis=0), stack.min(axis=0), stack.max(axis=0)


def chart(groups: dict[str, list[Line]]) -> dict[str, Any] | None:
    """Return the curves of the largest groups, mean over the range from lowest to highest; None where none has one."""
    parts = []
    for value, lines in [pair for pair in groups.items() if pair[0] != NONE][:MAX_DRAWN]:
        mean, low, high = course(lines)
        share = 100 * np.linspace(0, 1, PARTS)[: len(mean)]
        parts.append(pd.DataFrame({"group": value, "share": share, "mean": mean, "low": low, "high": high}))
    data = pd.concat(parts) if parts else pd.DataFrame()
    if not len(data):
        return None
    names = list(dict.fromkeys(data["group"]))
    colour = {"field": "group", "type": "nominal", "scale": {"domain": names, "range": COLOURS[: len(names)]}}
    legend = {"orient": "top", "title": None, "labelLimit": 260}
    x = {"field": "share", "type": "quantitative", "title": _("Part of the run (%)"), "scale": {"nice": False}}
    y = {"type": "quantitative", "scale": {"zero": False}}
    said = [
        {"field": "group", "type": "nominal", "title": _("Group")},
        *(
            {"field": name, "type": "quantitative", "format": ".4~g", "title": words}
            for name, words in (("mean", _("Mean")), ("low", _("Lowest")), ("high", _("Highest")))
        ),
    ]
    edge = {**y, "field": "low", "title": _("Loss")}
    band = {
        "mark": {"type": "area", "opacity": 0.16},
        "encoding": {"y": edge, "y2": {"field": "high"}, "color": {**colour, "legend": None}},
    }
    line = {
        "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 1, "opacity": 0}},
        "encoding": {"y": {**y, "field": "mean"}, "color": {**colour, "legend": legend}, "tooltip": said},
    }
    return {
        "data": {"name": DATA},
        "height": 220,
        "encoding": {"x": x},
        "layer": [band, line],
        "config": {"view": {"stroke": None}},
        "datasets": {DATA: data},
    }

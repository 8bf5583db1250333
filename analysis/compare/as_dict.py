"""The JSON form of a comparison: what `compare --json` prints."""

from collections.abc import Sequence
from typing import Any

from analysis.compare.comparison import Comparison
from analysis.compare.config_diff import DIFFERENT, UNKNOWN, Row
from analysis.compare.pairs import Pair


def as_dict(told: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON: `differs, comparable, reasons, metrics, verdict` and what else it says."""
    ids = [side.subject.id for side in told.sides]
    view, diff = told.view, told.diff
    return {
        "runs": [{"run": side.subject.id, "name": side.name} for side in told.sides],
        "base": ids[told.base],
        "differs": [_row(row, ids) for row in diff.rows if row.status == DIFFERENT],
        "unknown": [row.key for row in diff.rows if row.status == UNKNOWN],
        "conditions": {
            "classes": {name: {"status": status, "what": list(what)} for name, (status, what) in diff.six.items()},
            "groups": {name: {"status": status, "what": list(what)} for name, (status, what) in diff.groups.items()},
            "equal_settings": diff.equal,
        },
        "comparable": told.comparable,
        "absolute": told.fair.absolute,
        "single_variable": told.fair.single,
        "reasons": [reason.to_dict() for reason in told.fair.reasons],
        "axis": view.axis,
        "axes": list(view.axes),
        "metric": view.metric,
        "relative": view.relative,
        "target": told.target.to_dict() if told.target else None,
        "metrics": {run: figures.to_dict() for run, figures in zip(ids, told.numbers, strict=True)},
        "groups": [[ids[member] for member in group] for group in told.groups],
        "states": [state.to_dict() for state in told.states],
        "pairs": [_pair(pair, ids) for pair in told.pairs],
        "spread": view.spread,
        "repeats": told.repeats,
        "verdict": {"kind": told.verdict, "text": told.sentence.to_dict(), **_winner(told, ids)},
        "notes": [note.to_dict() for note in told.notes],
    }


def _row(row: Row, ids: Sequence[str]) -> dict[str, Any]:
    return {
        "key": row.key,
        "title": row.title or row.key,
        "class": row.six or None,
        "group": row.group,
        "values": dict(zip(ids, row.values, strict=True)),
        "variable": row.varied,
        "sources": dict(zip(ids, row.sources, strict=True)) if row.sources else {},
    }


def _pair(pair: Pair, ids: Sequence[str]) -> dict[str, Any]:
    return {
        "run": ids[pair.run],
        "kind": pair.kind,
        "text": pair.text.to_dict(),
        "varied": [row.title or row.key for row in pair.varied],
        "differences": {axis: found.to_dict() for axis, found in pair.differences.items()},
        "parting": pair.parting.text.to_dict() if pair.parting else None,
        "expected": [one.to_dict() for one in pair.expected],
    }


def _winner(told: Comparison, ids: Sequence[str]) -> dict[str, Any]:
    """Return who is better than whom in the verdict, and by how much."""
    if told.winner is None:
        return {"better": None, "worse": None}
    better, worse, pair = told.winner
    found = pair.differences[told.view.axis or ""]
    amount, error = (None, None) if found.value is None or found.error is None else found.below
    unit = {"percent": amount, "difference": None} if found.log else {"percent": None, "difference": amount}
    return {"better": ids[better], "worse": ids[worse], **unit, "error": error}

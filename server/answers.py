"""What the command line and the HTTP interface say of runs, as plain values that JSON takes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from analysis.compare.as_dict import as_dict
from server.compare import comparison, judged_heads, usual_base
from server.costs import Wishes
from server.lanes import clocks_of
from server.monitor import heartbeats
from server.service import Service
from storage.keeping.sources import Lane
from storage.store import UnknownRun
from storage.types import Run


class UnknownMetric(KeyError):
    """The run has no such metric; the message says which it has."""

    def __str__(self) -> str:
        return str(self.args[0])


def runs(service: Service) -> list[dict[str, Any]]:
    """Return every run, the one changed last first, its lanes taken together."""
    lanes = _lanes_by_run(service)
    return [_run(run, lanes.get(run.id, [])) for run in service.store.runs()]


def run(service: Service, name: str) -> dict[str, Any]:
    """Return all that is known of a run: what `runs` says, its verdict, report, lanes and clocks. Raises UnknownRun."""
    store, run_id = service.store, service.find_run(name)
    report, diagnosis = store.report(run_id), service.diagnosis(run_id)
    found = clocks_of(store, run_id)
    beats = {beat.run: beat for beat in heartbeats(store, run_id)}
    lanes = store.lanes(run_id)
    return _run(store.run(run_id), lanes) | {
        "verdict": str(diagnosis.verdict),
        "sentence": diagnosis.sentence.render(),
        "findings": [finding.title.render() for finding in diagnosis.findings],
        "format": report.format,
        "records": report.records,
        "unparsed": report.unparsed_count,
        "metrics": [column.name for column in store.columns(run_id)],
        "lanes": [
            _lane(lane)
            | {
                "age_seconds": round(beats[lane.run].age_seconds, 1),
                "clock_ahead_seconds": round(beats[lane.run].clock_ahead_seconds, 3),
                "clock_offset_ms": found.offsets[lane.run].ms if found and lane.run in found.offsets else None,
                "clock_residual_ms": found.offsets[lane.run].residual_ms if found and lane.run in found.offsets else None,
            }
            for lane in lanes
        ],
    }


def series(service: Service, name: str, metric: str) -> dict[str, list[Any]]:
    """Return every point of a metric: `step`, `value`, `line`, as logged; the means a run prints at its end are left out.

    `name` is an id or an unambiguous name, `metric` a canonical name or the name as printed. Of a run with lanes, the lanes
    follow each other, and `rank` says of each point which one it is. Raises UnknownRun or UnknownMetric.
    """
    store, run_id = service.store, service.find_run(name)
    points: dict[str, list[Any]] = {"step": [], "value": [], "line": []}
    lanes = store.lanes(run_id)
    ranks: list[int | None] = []
    known: set[str] = set()
    for lane in lanes:
        names = {c.name: c.name for c in store.columns(lane.run)}
        known |= set(names)
        column = ({c.printed: c.name for c in store.columns(lane.run)} | names).get(metric)
        if column is None:
            continue
        rows = store.frame(lane.run, ["kind", "step", "line", column], kind=None)
        rows = rows.filter(pc.and_(pc.not_equal(rows["kind"], "summary"), rows[column].is_valid()))
        for key, field in (("step", "step"), ("value", column), ("line", "line")):
            points[key] += rows[field].to_pylist()
        ranks += [lane.rank] * rows.num_rows
        known.add(metric)
    if metric not in known:
        raise UnknownMetric(f"Run {run_id} has no metric {metric!r}. It has: {', '.join(sorted(known))}.")
    return points | ({"rank": ranks} if len(lanes) > 1 else {})


def read(service: Service, found: Any) -> dict[str, Any]:
    """Return what became of a file that was read in (a `Read`)."""
    if found.run is None:
        return {"file": found.file, "error": found.error, "message": found.message.render() if found.message else ""}
    rows = sum(lane.rows for lane in service.store.lanes(found.run))
    verdict = str(service.diagnosis(found.run).verdict)
    return {"file": found.file, "run": found.run, "known": found.known, "rows": rows, "verdict": verdict}


def cost(service: Service, name: str, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Return time and cost of a run (id or unambiguous name); `wishes` are the fields of `Wishes`.

    Raises UnknownRun, ValueError for a wish that can't be.
    """
    return service.cost(service.find_run(name), Wishes(**wishes)).to_dict()


def compare(service: Service, names: Sequence[str], base: str | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison of runs (ids or unambiguous names) with `base`, by default the one that the page takes too.

    asked: `axis, metric, reach, gpus, price`, each None where it is not asked for. Raises UnknownRun, ValueError.
    """
    runs = [service.find_run(name) for name in names]
    lead = usual_base(service, judged_heads(service, runs)) if base is None else service.find_run(base)
    wishes = Wishes(gpus=asked["gpus"], price=asked["price"])
    view = {name: asked[name] for name in ("axis", "metric", "reach")}
    return as_dict(comparison(service, runs if lead in runs else [*runs, lead], base=lead, wishes=wishes, **view))


def _run(run: Run, lanes: list[Lane]) -> dict[str, Any]:
    several = len(lanes) > 1
    claim = lanes[0].path.rpartition("/")[0] if several and lanes[0].path else run.source
    return {
        "run": run.id,
        "name": run.name,
        "source": claim,
        "rows": sum(lane.rows for lane in lanes) if several else run.rows,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "offset": sum(lane.offset for lane in lanes) if several else run.offset,
        "bytes": sum(lane.bytes for lane in lanes) if several else run.bytes,
        "lanes": max(1, len(lanes)),
    }


def _lane(lane: Lane) -> dict[str, Any]:
    values: Mapping[str, Any] = asdict(lane)
    return {name: value.isoformat() if name == "updated" else value for name, value in values.items()}


def _lanes_by_run(service: Service) -> dict[str, list[Lane]]:
    """Return the lanes of the runs that have several."""
    jobs = {source.job for source in service.store.sources() if source.job}
    found: dict[str, list[Lane]] = {}
    for job in jobs:
        try:
            found[job] = service.store.lanes(job)
        except UnknownRun:  # deleted
            continue
    return found

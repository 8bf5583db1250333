"""A growing run: told piece by piece, it is diagnosed as it is in one go, whatever is wrong with it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis import simulate as lab
from analysis import simulate_hardware as machine
from analysis.diagnose import Diagnosis, diagnose
from analysis.findings import Finding, Severity
from analysis.live import Limits, Live, grow, merged, same
from analysis.segment import Segment, split_segments
from analysis.simulate import Simulated
from analysis.strand import GROUPS, Means, Strand
from messages import Text

ROWS, PIECE = 12_000, 2000
EARLY = Limits(exact=4000)  # so that most of the run is seen in parts
SMALL_CHANGE = ("step_time_spike", "level_shift")  # that only inform: single slow rows of a rhythm; steps of a rise
JUMPS = {"spike_unrecovered": "spike"}  # one that came back very late may keep its class


def table(segment: Segment) -> pa.Table:
    """Return a simulated launch as the store gives its rows."""
    parts = []
    for kind, frame, absent in (
        ("train", segment.rows, segment.absent),
        ("eval", segment.evals, segment.evals_absent),
        ("telemetry", segment.telemetry, {}),
    ):
        columns = {name: pa.array(frame[name].to_numpy(), mask=absent.get(name)) for name in frame.columns}
        if len(frame):
            parts.append(pa.table(columns | {"kind": pa.array([kind] * len(frame))}))
    whole = pa.concat_tables(parts, promote_options="default")
    if segment.total_steps:
        whole = whole.append_column("total_steps", pa.array(np.full(whole.num_rows, float(segment.total_steps))))
    return whole.take(pa.array(np.argsort(whole["line"].to_numpy(), kind="stable")))


def said(segment: Segment) -> list[Mapping[str, Any]]:
    return segment.events.astype(object).where(segment.events.notna(), None).to_dict("records")


def in_pieces(rows: pa.Table, events: list, config: Mapping[str, Any], *, piece: int = PIECE, limits: Limits = EARLY) -> Live:
    live, lines = Live(limits=limits), rows["line"].to_numpy()
    for start in range(0, rows.num_rows, piece):
        low = lines[start - 1] if start else 0
        high = lines[start + piece - 1] if start + piece < len(lines) else np.inf
        now = [event for event in events if low < event["line"] <= high]
        live = grow(live, rows.slice(start, piece), now, config=config)
    return live


def unlike(whole: Diagnosis, live: Diagnosis, rows: int) -> list[str]:
    """Return what only one of two diagnoses has; a first step may differ by a hundredth of the run (a creep's by a tenth)."""

    def close(one: Finding, other: Finding) -> bool:
        share = 0.1 if one.kind == "grad_creep" else 0.01
        kinds = {JUMPS.get(finding.kind, finding.kind) for finding in (one, other)}
        return len(kinds) == 1 and abs((one.first_step or 0) - (other.first_step or 0)) <= share * rows

    pairs = ((whole.findings, live.findings, "whole"), (live.findings, whole.findings, "live"))
    return [
        f"only {name}: {one.kind} {one.first_step} {one.title.render()}"
        for mine, others, name in pairs
        for one in mine
        if one.kind not in SMALL_CHANGE and not any(close(one, other) for other in others)
    ]


def assert_live_is_as_in_one_go(run: Simulated, piece: int = PIECE) -> None:
    segment = run.segment
    rows, events = table(segment), said(segment)
    whole = diagnose(split_segments(rows, events=events, config=segment.config))
    live = in_pieces(rows, events, segment.config, piece=piece)
    assert live.diagnosis is not None
    assert unlike(whole, live.diagnosis, int(segment.steps()[-1])) == []
    assert live.diagnosis.verdict == whole.verdict
    assert live.diagnosis.early == whole.early


@pytest.mark.parametrize("fault", lab.FAULTS)
def test_every_fault_of_the_loss_is_found_as_in_one_go(fault: str) -> None:
    assert_live_is_as_in_one_go(lab.simulate(rows=ROWS, seed=1, fault=fault))


@pytest.mark.parametrize("kind", lab.KINDS)
def test_every_healthy_kind_stays_as_quiet(kind: str) -> None:
    assert_live_is_as_in_one_go(lab.simulate(rows=ROWS, seed=2, kind=kind))


@pytest.mark.parametrize("fault", [name for name in machine.ALL_FAULTS if name != "periodic_pause"])
def test_every_fault_of_the_machine_is_found_as_in_one_go(fault: str) -> None:
    assert_live_is_as_in_one_go(machine.simulate(rows=ROWS, seed=1, fault=fault))


@pytest.mark.parametrize("piece", [450, 3700, 9000])
@pytest.mark.parametrize("fault", ["spike", "divergence", "nan_to_end"])
def test_the_size_of_the_pieces_makes_no_difference(fault: str, piece: int) -> None:
    assert_live_is_as_in_one_go(lab.simulate(rows=ROWS, seed=7, fault=fault), piece)


def test_while_a_launch_is_short_the_diagnosis_is_that_of_one_go() -> None:
    segment = lab.simulate(rows=3000, seed=5, fault="divergence").segment
    live = in_pieces(table(segment), [], {}, piece=500)
    assert live.diagnosis == diagnose(split_segments(table(segment)))


def test_what_is_kept_of_a_run_does_not_grow_with_it() -> None:
    live, segment = Live(limits=EARLY), lab.simulate(rows=60_000, seed=3, kind="moe").segment
    sizes = []
    for start in range(0, 60_000, PIECE):
        live = grow(live, table(segment).slice(start, PIECE))
        assert live.launch
        sizes.append(live.launch.train.table().num_rows)
        assert len(live.launch.means.groups) <= 2 * GROUPS
    assert live.rows == 60_000
    assert max(sizes[10:]) < 12_000


def test_a_new_launch_begins_anew_and_the_findings_of_the_one_before_stay() -> None:
    first, second = (lab.simulate(rows=8000, seed=4, fault=fault).segment for fault in ("spike_unrecovered", None))
    rows = [table(segment).append_column("segment", pa.array([n] * 8000)) for n, segment in enumerate((first, second))]
    rows[1] = rows[1].set_column(0, "line", pa.array(np.arange(8000) + 8002))
    events = [{"line": 8001, "kind": "out_of_memory", "text": "out of memory", "step": None, "segment": 0, "data": {}}]
    whole = diagnose(split_segments(pa.concat_tables(rows), events=events))
    live = in_pieces(pa.concat_tables(rows), events, {}, piece=3000)
    assert live.diagnosis is not None
    assert unlike(whole, live.diagnosis, 8000) == []
    assert live.diagnosis.verdict == whole.verdict
    assert {finding.segment for finding in live.diagnosis.findings} == {finding.segment for finding in whole.findings}


def test_a_watched_run_that_goes_silent_hangs_and_one_that_nobody_watches_does_not() -> None:
    rows = table(machine.simulate(rows=9000, seed=1).segment)
    live = in_pieces(rows.slice(0, 8500), [], {})
    none = rows.slice(0, 0)
    hangs = {
        seconds: [f.kind for f in (grow(live, none, silent_seconds=seconds).diagnosis or Diagnosis("", Text(""))).findings]
        for seconds in (None, 5.0, 40_000.0)
    }
    assert {seconds: "hang" in kinds for seconds, kinds in hangs.items()} == {None: False, 5.0: False, 40_000.0: True}


def test_logs_that_only_all_rows_explain_say_so() -> None:
    ranks = pd.DataFrame({"line": np.arange(200) + 1, "step": np.arange(200) // 2, "rank": np.arange(200) % 2, "loss": 2.0})
    assert not grow(Live(), pa.Table.from_pandas(ranks, preserve_index=False)).bounded
    assert not grow(Live(), pa.table({"line": np.arange(1, 40), "loss": np.linspace(3, 2, 39)})).bounded


def test_no_rows_no_events_and_nothing_but_text_are_no_error() -> None:
    nothing = pa.table({"line": pa.array([], pa.int64())})
    assert grow(Live(), nothing).diagnosis is not None
    event = {"line": 3, "kind": "traceback", "text": "ValueError: no", "step": None, "segment": 0, "data": {}}
    told = grow(Live(), nothing, [event]).diagnosis
    assert told is not None
    assert told.verdict == "failed"


def test_means_are_those_of_the_rows() -> None:
    rows = pd.DataFrame({"step": np.arange(1.0, 40_001), "loss": np.geomspace(4, 2, 40_000), "gap": -1.0})
    means = Means()
    for start in range(0, 40_000, 3001):
        means = means.grown(rows.iloc[start : start + 3001])
    course = means.course(rows.iloc[:0])
    logs = np.log(rows["loss"].to_numpy())[: len(means.groups) * means.size].reshape(-1, means.size).mean(axis=1)
    assert np.allclose(np.log(means.groups["loss"]), logs)
    assert course["step"].iloc[-1] == 40_000
    assert GROUPS <= len(course) <= 2 * GROUPS + 1


def test_a_strand_keeps_its_first_its_last_and_rows_in_between_as_they_are() -> None:
    rows = pa.table({"line": np.arange(100_000)})
    strand = Strand(rows.slice(0, 0))
    for start in range(0, 100_000, 10_000):
        strand = strand.grown(rows.slice(start, 10_000)).trimmed(2000)
    lines = strand.table()["line"].to_numpy()
    assert len(strand) == 100_000
    assert (np.diff(lines) > 0).all()
    assert lines[0] == 0
    assert lines[-1] == 99_999
    assert len(lines) < 6000


def test_a_finding_that_went_on_gets_its_end_and_keeps_its_start() -> None:
    def found(first: int, last: int | None, known: int) -> Finding:
        title = Text("{step} {end}", {"step": first, "end": last})
        return Finding("slowdown", Severity.WARNING, 0, first, last, title, known_step=known)

    (one,) = merged([found(100, None, 110)], [found(120, 900, 130)], frozenset(), 500)
    assert (one.first_step, one.last_step, one.known_step) == (100, 900, 110)
    assert one.title.values == {"step": 100, "end": 900}
    assert not same(found(100, 200, 110), found(300, None, 310))

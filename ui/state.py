"""What pages ask for: the service, cached by the version of the data, and the parts of the view that live in the URL.

A cached answer is keyed by the version of the run, so all sessions share one computation and see new rows at once.
Parameters whose values are words in the page (run, segment, live interval) are written here by hand: Streamlit's own
binding would put the translated label into the URL. Numbers and switches use `bind="query-params"`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from analysis.diagnose import Diagnosis
from server import service
from storage.reading.columns import canonical
from storage.store import Store, UnknownRun
from storage.types import Column, Event, ParseReport, Run
from ui import axes, evaluations, html, text
from ui.axes import Course, Span
from ui.text import _

MAX_LISTED = 200  # runs in the picker, the latest ones; all of them are on the overview
LAST_RUN = "last_run"  # in the session: the menu leads from page to page without a run in the URL
CALLED = "run_called"  # the name by which the run picker shows its run
LIVE_SECONDS = (0, 2, 5, 30)
EPOCHS_LOOKED_AT = 16
STILL_GROWING = timedelta(minutes=15)
cached = st.cache_data(max_entries=256, ttl=3600, show_spinner=False)
# For what no page changes: the copy for each session that st.cache_data makes can cost as much as half of the work.
shared = st.cache_resource(max_entries=48, ttl=3600, show_spinner=False)


def store() -> Store:
    """Return the store of this process."""
    return service.get().store


@cached
def diagnosis(run_id: str, version: int, profile: str | None = None, edition: int = 0) -> Diagnosis:
    """Return the diagnosis of this version of a run (and edition: the same rows judged anew); the server's profile if None."""
    return service.get().diagnosis(run_id, profile)


@cached
def buckets(
    run_id: str, version: int, metrics: tuple[str, ...], course: Course, span: Span | None, segment: int | None, width: int
) -> pd.DataFrame:
    """Return the buckets of the metrics over a drawn range of x (None: all), at most `width` a metric and launch.

    Their x is as it is drawn. Evaluations under the name of a training metric are not among them (see `evaluated`).
    """
    apart = told_apart(run_id, version).intersection(metrics)
    rest = _asked(run_id, [name for name in metrics if name not in apart], course, span, segment, width, None)
    if not apart:
        return rest
    trained = _asked(run_id, sorted(apart), course, span, segment, width, "train")
    return pd.concat([found for found in (trained, rest) if len(found)] or [rest], ignore_index=True)


@cached
def evaluated(
    run_id: str, version: int, metrics: tuple[str, ...], course: Course, span: Span | None, segment: int | None, width: int
) -> pd.DataFrame:
    """Return the buckets of the evaluations that stand under the name of a training metric, as series of their own."""
    apart = told_apart(run_id, version).intersection(metrics)
    return evaluations.named(_asked(run_id, sorted(apart), course, span, segment, width, "eval"))


def _asked(
    run_id: str, metrics: list[str], course: Course, span: Span | None, segment: int | None, width: int, kind: str | None
) -> pd.DataFrame:
    first, last = course.stored(span) or (None, None)
    found = store().buckets(run_id, metrics, x=course.x, first=first, last=last, width=width, segment=segment, kind=kind)
    return axes.drawn(found, course)


@cached
def told_apart(run_id: str, version: int) -> frozenset[str]:
    """Return the metrics of a run that are two series: that of training and that of evaluations."""
    read = report(run_id, version)
    if not read.records or not read.eval_records:
        return frozenset()
    return evaluations.apart(store(), run_id, columns(run_id, version))


def drawn(
    run_id: str,
    version: int,
    metrics: tuple[str, ...],
    course: Course,
    span: Span | None,
    segment: int | None,
    width: int,
    *,
    log: bool = False,
) -> pd.DataFrame:
    """Return the buckets of the metrics and of their evaluations; for a logarithmic x as many in each of its last decades."""
    found = _both(run_id, version, metrics, course, span, segment, width)
    if not log or not len(found):
        return found
    found = axes.above_zero(found)
    reach = span if span and span[0] > 0 else axes.whole(found)
    if reach is None:
        return found
    pieces = axes.decades(reach)
    parts = [_both(run_id, version, metrics, course, piece, segment, width // len(pieces)) for piece in pieces]
    order = {name: place for place, name in enumerate(evaluations.beside(metrics, found))}
    together = axes.above_zero(pd.concat([part for part in parts if len(part)], ignore_index=True))
    keys = together["metric"].map(order)
    return together.assign(_place=keys).sort_values(["_place", "segment", "x"], kind="stable").drop(columns="_place")


def _both(run_id: str, version: int, metrics: tuple[str, ...], *view: Any) -> pd.DataFrame:
    trained = buckets(run_id, version, metrics, *view)
    beside = evaluated(run_id, version, metrics, *view)
    return pd.concat([trained, beside], ignore_index=True) if len(beside) else trained


@cached
def of_evaluations(run_id: str, version: int, metric: str) -> bool:
    """Say whether only evaluations print a metric: its last value is then one of them."""
    if metric.startswith("eval"):
        return True
    read = report(run_id, version)
    if not read.eval_records:
        return False
    found = store().latest([run_id])
    step = found.loc[found["metric"] == metric, "step"]
    if not len(step) or pd.isna(step.iloc[0]):
        return read.records == 0
    rows = store().frame(run_id, ["kind", metric], kind=None, first_step=int(step.iloc[0]), last_step=int(step.iloc[0]))
    kinds = rows.filter(rows[metric].is_valid())["kind"].to_pylist() if metric in rows.column_names else []
    return bool(kinds) and "train" not in kinds


@cached
def lane_count(run_id: str, version: int) -> int:
    """Return how many files the run is written to, one a rank or node."""
    return len(store().lanes(run_id))


@cached
def usual_launch(run_id: str, version: int) -> int:
    """Return which launch a page shows first: 0 (all) where each goes on from the one before, else the last, from 1."""
    names = [column.name for column in store().columns(run_id)]
    ends = store().buckets(run_id, names[:3], width=1).groupby("segment")[["x", "x_last"]].agg({"x": "min", "x_last": "max"})
    before, after = ends["x_last"].to_numpy()[:-1], ends["x"].to_numpy()[1:]
    goes_on = bool((after > 0.5 * before).all())
    return 0 if goes_on else int(ends.index[-1]) + 1


@cached
def latest(run_id: str, version: int) -> dict[str, float]:
    """Return the last value of each metric of a run."""
    frame = store().latest([run_id])
    return dict(zip(frame["metric"], frame["value"], strict=True))


@cached
def trained(run_id: str, version: int) -> dict[str, float]:
    """Return the last value of each metric of a run, of those that evaluations print too the last of training."""
    apart = sorted(told_apart(run_id, version))
    found = _asked(run_id, apart, axes.LINE, None, None, 1, "train").drop_duplicates("metric", keep="last")
    return latest(run_id, version) | dict(zip(found["metric"], found["last"], strict=True))


@cached
def events(run_id: str, version: int) -> tuple[Event, ...]:
    """Return what the text of the log says beside its rows."""
    return store().events(run_id)


@cached
def columns(run_id: str, version: int) -> tuple[Column, ...]:
    """Return the metrics of a run."""
    return tuple(store().columns(run_id))


@cached
def report(run_id: str, version: int) -> ParseReport:
    """Return what the reader understood of the log of a run."""
    return store().report(run_id)


@cached
def courses(run_id: str, version: int) -> dict[str, Course]:
    """Return the x axes that a run has, by their key in the URL, the usual one first."""
    run, last = store().run(run_id), latest(run_id, version)
    metrics = [column.name for column in columns(run_id, version)][:3]
    known = "steps_per_epoch" in last
    fractions = 0 if known else store().buckets(run_id, metrics, x="epoch", width=EPOCHS_LOOKED_AT)["x"].nunique()
    return axes.courses(run, last, fractions=fractions, stamped=last_printed(run_id, version, run.last_step) is not None)


@cached
def last_printed(run_id: str, version: int, last_step: int | None) -> datetime | None:
    """Return the wall clock that the last line printed, UTC, None where the log prints none."""
    if last_step is None:
        return None
    stamps = store().frame(run_id, ["timestamp"], first_step=last_step)["timestamp"].drop_null()
    return stamps[-1].as_py() if len(stamps) else None


def metric_title(name: str) -> str:
    """Return what a person calls a metric, with its unit; a metric we do not know keeps its own name."""
    known = canonical().get(name)
    if known is None:
        return name
    return f"{_(known.title)} ({known.unit})" if known.unit else _(known.title)


def not_here(runs: Sequence[str]) -> None:
    """Say which runs (ids) of the URL there are not, if any."""
    if runs:
        html.warn(_("Not here: {runs} (deleted, or from another server).").format(runs=", ".join(runs)[:200]))


def growing(runs: Sequence[Run]) -> frozenset[str]:
    """Return which runs (ids) may still get rows: sources that are followed, not finished, their last rows fresh."""
    open_ended = [run for run in runs if run.total_steps is None or (run.last_step or 0) < run.total_steps]
    fresh = [run.id for run in open_ended if datetime.now(UTC) - text.as_utc(run.updated) < STILL_GROWING]
    if not fresh:
        return frozenset()
    watcher = service.get().watcher
    folders = [status.watched.folder for status in (watcher.status if watcher else ())]
    # A source without a device is a stream that somebody sends.
    followed = [
        source
        for source in store().sources(fresh)
        if source.device == 0 or any(Path(source.path).is_relative_to(folder) for folder in folders)
    ]
    return frozenset(fresh) & {name for source in followed for name in (source.run, source.job)}


def pick_run() -> Run | None:
    """Show the run picker and return the run that the URL names, else the one looked at last, else the newest.

    Returns None after saying why, when there is no run at all or none of this id.
    """
    asked = st.query_params.get("run")
    run = known(asked) if asked is not None else None
    if asked is not None and run is None:
        html.empty(_("There is no run “{run}” here: it was deleted, or the link is from another server.").format(run=asked))
        st.page_link("pages/overview.py", label=_("See all runs"), icon=":material/list:")
        return None
    listed = [line.run for line in service.get().board.lines()[:MAX_LISTED]]
    if not listed:
        html.empty(_("No run yet. Bring in a training log and this page shows whether the run is healthy."))
        st.page_link("pages/upload.py", label=_("Bring in a log"), icon=":material/upload:")
        return None
    run = run or known(st.session_state.get(LAST_RUN, "")) or listed[0]
    names = {one.id: one.name for one in (*listed, run)}
    st.session_state["run_picker"] = st.session_state[LAST_RUN] = run.id
    st.session_state[CALLED] = run.name
    st.selectbox(
        _("Run"),
        list(names),
        format_func=lambda key: names[key],
        key="run_picker",
        label_visibility="collapsed",
        on_change=_run_chosen,
        width=280,
    )
    st.query_params["run"] = run.id
    return run


def renamed(run: Run) -> bool:
    """Say whether the run picker shows a name that the run had before: a live page redraws all but its bar."""
    return st.session_state.get(CALLED, run.name) != run.name


def remember_asked() -> None:
    """Keep the run that the URL names for the pages that the menu leads to.

    First of all in a script: a click in the menu cuts a page off before it has drawn its picker.
    """
    if asked := st.query_params.get("run"):
        st.session_state[LAST_RUN] = asked


def open_run(run_id: str) -> NoReturn:
    """Lead to the health of a run, which is from now on the one that the menu's pages show."""
    st.session_state[LAST_RUN] = run_id
    st.switch_page("pages/health.py", query_params={"run": run_id})


def known(run_id: str) -> Run | None:
    """Return a run, None where there is none of this id (any more)."""
    try:
        return store().run(run_id)
    except UnknownRun:
        return None


def _run_chosen() -> None:
    st.query_params["run"] = st.session_state["run_picker"]
    for key in ("x0", "x1"):
        st.session_state[key] = None
    for key in ("segment", "finding", "x", "range", "m"):
        st.query_params.pop(key, None)
    for key in ("segment_picker", "x_picker", "m_picker"):
        st.session_state.pop(key, None)


def pick(name: str, label: str, words: Mapping[str, str], default: str, *, width: int = 150, pinned: bool = False) -> str:
    """Show a picker over the keys of `words` whose choice is in the URL under `name`.

    The default is left out of the URL, unless it is `pinned`: one that may be another one later.
    """
    key, asked = f"{name}_picker", st.query_params.get(name)
    if st.session_state.get(key) not in words:
        st.session_state[key] = asked if asked in words else default
    chosen: str = st.selectbox(
        label, list(words), format_func=lambda one: words[one], key=key, label_visibility="collapsed", width=width
    )
    set_param(name, None if chosen == default and not pinned else chosen)
    return chosen


def set_param(name: str, value: str | None) -> None:
    """Set a parameter of the URL, or take it out."""
    if value is not None:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)

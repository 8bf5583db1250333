"""Baselines: runs that people have saved, that others stand beside; their rows are kept from ageing."""

from collections.abc import Sequence

from analysis.compare.baseline import Baseline, Deltas, deltas, made_of
from server.subjects import subject_of, subjects_of
from storage.store import Store

BASELINE = "baseline"  # kind of the documents, and reason of the holds


def save_baseline(store: Store, name: str, runs: Sequence[str], *, who: str = "") -> Baseline:
    """Save a run, or a group of repeats, as a baseline; its runs are kept from ageing. Raises UnknownRun, ValueError."""
    name = name.strip()
    if not name or len(name) > 80:
        raise ValueError("A baseline has a name of 1 to 80 characters.")
    made = made_of(name, subjects_of(store, list(dict.fromkeys(runs))))
    store.keep(BASELINE, name, made.to_dict(), who=who)
    for run in made.runs:
        store.hold(run, BASELINE)
    return made


def drop_baseline(store: Store, name: str) -> None:
    """Remove a baseline; runs that no other baseline holds may age again."""
    gone = next((one for one in baselines(store) if one.name == name), None)
    store.drop(BASELINE, name)
    still = {run for one in baselines(store) for run in one.runs}
    for run in gone.runs if gone else ():
        if run not in still:
            store.release(run, BASELINE)


def baselines(store: Store) -> list[Baseline]:
    """Return the baselines, the newest first."""
    return [Baseline.from_dict(kept.name, kept.data) for kept in reversed(store.kept(BASELINE, ""))]


def baseline(store: Store, run_id: str, name: str | None = None) -> Deltas | None:
    """Return a run beside a baseline: the one of that name, else the newest; None without one, or for a run of it.

    Raises UnknownRun. Reads nothing of the baseline's runs: what it takes is in the baseline.
    """
    for one in baselines(store):
        if name in (None, one.name):
            return None if run_id in one.runs else deltas(one, subject_of(store, run_id))
    return None

"""The diagnosis that a page about a run shows: the one that is kept, which the monitor renews while rows arrive."""

from dataclasses import dataclass

from analysis.diagnose import Diagnosis
from server import service
from server.glance import Glance
from storage.types import Run
from ui import state

CHART_FIRST_ROWS = 200_000  # fewer are judged in a quarter of a second


@dataclass(frozen=True)
class Judged:
    """A diagnosis, time and money at a glance, and a stamp that tells the diagnosis of a run apart from its other ones."""

    diagnosis: Diagnosis
    glance: Glance
    stamp: str = ""


def judged(run: Run, version: int, profile: str | None = None) -> Judged | None:
    """Return the newest diagnosis of a run; None for a long log that has none yet: draw it first, then `make` one.

    With a monitor it may be a few seconds older than the rows: no page waits for what is being made anyway. A profile that
    is not the server's is judged when asked for.
    """
    here = service.get()
    if profile not in (None, here.settings.profile):
        return make(run, version, profile)
    kept = state.store().judged(here.settings.profile, [run.id]).get(run.id)
    if kept is not None and (kept == version or here.monitor is not None):
        return _kept(run.id, kept, here.edition(run.id))
    if kept is None and run.rows >= CHART_FIRST_ROWS and not here.settings.read_only:
        return None
    return make(run, version)


def make(run: Run, version: int, profile: str | None = None) -> Judged:
    """Judge the run as it is now."""
    edition, used = service.get().edition(run.id), profile or service.get().settings.profile
    diagnosis = state.diagnosis(run.id, version, profile, edition)
    kept = state.store().diagnosis(run.id, used)
    return Judged(diagnosis, Glance.from_dict(kept[1].get("glance") if kept else None), f"{used}-{version}-{edition}")


@state.cached
def _kept(run_id: str, made_for: int, edition: int) -> Judged:
    used = service.get().settings.profile
    kept, stamp = state.store().diagnosis(run_id, used), f"{used}-{made_for}-{edition}"
    if kept is None:
        return Judged(state.diagnosis(run_id, made_for, None, edition), Glance(), stamp)
    return Judged(Diagnosis.from_dict(kept[1]), Glance.from_dict(kept[1].get("glance")), stamp)

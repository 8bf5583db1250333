"""The checklist of a run: the log's answers, and those that people gave where it has none (documents of kind `tick`)."""

from collections.abc import Mapping

from analysis.checklist import Checklist, State, Tick, checklist
from server.alerts.channels import used
from server.quality import log_quality
from server.service import Service
from storage.keeping.kept import Kept

KIND = "tick"
MAX_NOTE = 1_000


def run_checklist(service: Service, run_id: str, *, ticks: Mapping[str, Tick] | None = None) -> Checklist:
    """Return the answers about a run. ticks: people's answers, by default those that are kept. Raises UnknownRun."""
    given = ticks_of(service, run_id) if ticks is None else ticks
    quality = log_quality(service, run_id).quality
    ways = len(used(service.store)) or None  # none here: people may be told by something else
    return checklist(service.segments(run_id), service.diagnosis(run_id), quality, alerts=ways, ticks=given)


def ticks_of(service: Service, run_id: str) -> dict[str, Tick]:
    """Return what people answered about a run, by key of the item."""
    return {one.name: _tick(one) for one in service.store.kept(KIND, run_id)}


def _tick(one: Kept) -> Tick:
    data = one.data if isinstance(one.data, dict) else {}
    state = str(data.get("state", State.UNKNOWN))
    known = State(state) if state in set(State) else State.UNKNOWN
    return Tick(known, str(data.get("note", "")), one.who, one.made.isoformat())


def answer(service: Service, run_id: str, key: str, state: State, note: str, who: str = "") -> None:
    """Keep what a person answered, in the place of an earlier answer."""
    service.store.keep(KIND, key, {"state": str(state), "note": note[:MAX_NOTE]}, run=run_id, who=who)


def take_back(service: Service, run_id: str, key: str) -> None:
    """Forget what a person answered."""
    service.store.drop(KIND, key, run=run_id)

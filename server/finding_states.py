"""What people have said of findings, as documents beside the runs: seen (acknowledged), or muted with a reason."""

from storage.store import Store

KIND = "finding_state"
OPEN, SEEN, MUTED = "open", "acknowledged", "muted"


def muted(store: Store, run: str) -> set[str]:
    """Return the keys (`server.board.finding_key`) of the findings of a run that people have muted."""
    return {one.name for one in store.kept(KIND, run) if isinstance(one.data, dict) and one.data.get("state") == MUTED}

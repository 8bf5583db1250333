"""Tags that people give to runs: kept with the run, one document a tag."""

from storage.store import Store

KIND = "tag"


def of_run(store: Store, run: str) -> frozenset[str]:
    """Return the tags of a run."""
    return frozenset(one.name for one in store.kept(KIND, run))


def by_run(store: Store) -> dict[str, list[str]]:
    """Return the tags of each run that has some."""
    found: dict[str, list[str]] = {}
    for one in store.kept(KIND):
        found.setdefault(one.run, []).append(one.name)
    return found

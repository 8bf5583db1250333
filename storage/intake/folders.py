"""A watched folder between two polls, and how it is told to people."""

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from glob import escape

from messages import N_, Text
from storage.intake.follow import Log
from storage.intake.places import FILES, Places, RuleError
from storage.intake.scan import Entry, Problem, Scan
from storage.keeping.sources import Watched

MAX_FILES = 10_000  # logs of one folder; of more the ones changed last
MAX_PROBLEMS = 100  # kept of one folder
AHEAD_SECONDS = 60.0  # a time of change that far in the future is a clock that is wrong


@dataclass(frozen=True)
class FolderStatus:
    """A watched folder as it was at `polled`: how many logs lie in it, how many of them hold nothing to store, how many
    changed in the last minute, bytes not read yet, seconds that looking into it took, and what a person should know.
    `fixed`: it comes from the environment."""

    watched: Watched
    fixed: bool
    logs: int
    silent: int
    growing: int
    behind_bytes: int
    seconds: float
    problems: tuple[Problem, ...]
    polled: datetime


@dataclass(frozen=True)
class Wanted:
    """What is to be looked into. `fixed`: the environment says so; `shown`: people are told; `deep`: folders in it too."""

    watched: Watched
    fixed: bool = False
    shown: bool = True
    deep: bool = True


@dataclass
class Folder:
    """A watched folder between two polls. `ignored` are paths in it that are none of its logs, `left_out` those too many."""

    wanted: Wanted
    places: Places | None
    entries: dict[str, Entry] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    logs: dict[str, Log] = field(default_factory=dict)
    ignored: dict[str, Problem | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0
    left_out: set[str] = field(default_factory=set)


def status_of(folder: Folder, failure: Problem | None) -> FolderStatus:
    """Return how a folder is; `failure` is what keeps everything from being stored."""
    logs = list({id(log): log for log in folder.logs.values()}.values())
    recently = time.monotonic() - 60
    growing = sum(log.grew is not None and log.grew > recently for log in logs)
    behind = sum(log.behind for log in logs if log.sources)
    silent = sum(not log.sources for log in logs)
    problems = [*([failure] if failure else []), *folder.problems, *_of_files(folder, logs)]
    return FolderStatus(
        folder.wanted.watched,
        folder.wanted.fixed,
        len(logs),
        silent,
        growing,
        behind,
        folder.seconds,
        tuple(problems[:MAX_PROBLEMS]),
        datetime.now(UTC),
    )


def folder_of(wanted: Wanted) -> Folder:
    """Return a folder at which nobody has looked yet; a rule that can't be used is its problem."""
    try:
        return Folder(wanted, Places(wanted.watched))
    except RuleError as error:
        return Folder(wanted, None, problems=[Problem("bad_rule", wanted.watched.folder, error.message)])


def only(path: str) -> Wanted:
    """Return how to look at one file (and older pieces of it) and nothing else."""
    folder, name = os.path.split(path)
    # No path below the folder is "/": nothing is excluded.
    return Wanted(Watched(folder, (escape(name),), ("/",), FILES), shown=False, deep=False)


def order(found: Scan, new: list[str], *, room: int) -> list[str]:
    """Return new paths by name, those of links last; those changed last first where there is not room for all."""
    if len(new) > room:
        return sorted(new, key=lambda path: found.files[path][1], reverse=True)
    linked = set(list(found.files)[found.real :]) if found.real < len(found.files) else set()
    return sorted(new, key=lambda path: (path in linked, path))


def would_be_log(folder: Folder, path: str) -> bool:
    """Say whether a path would be a log if it were a file."""
    return folder.places is not None and folder.places.of(path) is not None


def _of_files(folder: Folder, logs: list[Log]) -> list[Problem]:
    """Return the problems of single files."""
    found = [log.problem for log in logs if log.problem] + [problem for problem in folder.ignored.values() if problem]
    for path in sorted(folder.others):
        message = N_(
            "{path} is a pipe, a socket or a device: it can't be read a second time. Send it: cli.py ingest - < {path}"
        )
        found.append(Problem("no_file", path, Text(message, {"path": path})))
    if folder.left_out:
        message = N_(
            "{count} files more match here than the {limit} that are watched, those changed last. Narrow the patterns."
        )
        found.append(
            Problem(
                "too_many", folder.wanted.watched.folder, Text(message, {"count": len(folder.left_out), "limit": MAX_FILES})
            )
        )
    latest = max((entry[1] for entry in folder.entries.values()), default=0) / 1e9 - time.time()
    if latest > AHEAD_SECONDS:
        message = N_(
            "A file was changed {seconds} s in the future: the clock of its machine is ahead or the one here was set back. "
            "Ages count from when lines arrived here; no line is lost."
        )
        found.append(Problem("clock", folder.wanted.watched.folder, Text(message, {"seconds": round(latest)})))
    return found

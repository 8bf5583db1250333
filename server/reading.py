"""Bringing files and folders of this machine into the store when somebody asks for it."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from messages import N_, Text
from storage.intake.files import LogFile
from storage.intake.ingest import ingest_file
from storage.intake.origins import holder, is_there
from storage.intake.places import unrotated
from storage.intake.watch import Watcher
from storage.keeping.sources import SETTLED, STREAM, Source
from storage.reading.decode import EMPTY
from storage.store import Store, UnknownRun
from storage.types import UnreadableLog

NOTHING_FOUND = N_(
    "Nothing of it is a training metric or a known event, so nothing was stored. "
    "Is it the training log? Lines such as 'step: 10 loss: 2.31' or JSON records with a loss can be read."
)


DELETED = N_("Its run was deleted. To have it back, name the file alone, or restore the run.")


@dataclass(frozen=True)
class Read:
    """What became of one log: its run, and whether nothing was new in it; or one word and a sentence why not."""

    file: str
    run: str | None = None
    known: bool = False
    error: str | None = None
    message: Text | None = None


def read_path(store: Store, watcher: Watcher | None, path: Path, *, name: str | None = None) -> list[Read]:
    """Read a file, or every log of a folder, to its end; say of each log what became of it. Raises FileNotFoundError.

    `watcher` is the one of the server, None where none runs. A log that was read before goes on where it was.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if path.is_file():
        _bring_back(store, str(path))
    watched = watcher is not None and watcher.has(unrotated(str(path)))
    if path.is_dir() or watched or _was_followed(store, str(path)):
        return _read_by_watching(store, watcher or Watcher(store, stored=False), str(path))
    known = holder(store, str(path))
    if known is not None and known.offset == path.stat().st_size:
        return [Read(str(path), known.job or known.run, known=True)]
    try:
        done = ingest_file(store, path, name=name)
    except UnreadableLog as error:
        return [Read(str(path), error=error.code, message=error.message)]
    if not done.known:
        source = _note(store, str(path), done.run_id)
        if watcher is not None:
            watcher.learn(source)
    return [Read(str(path), done.run_id, known=done.known)]


def _bring_back(store: Store, path: str) -> None:
    """Undo that the run of a file was deleted, if somebody asks for that file by its name."""
    for source in store.sources():
        if source.path == path and not is_there(store, source):
            with suppress(UnknownRun):  # removed for good: the file is read anew
                store.restore_run(source.job or source.run)


def size_of(path: str) -> int:
    """Return the bytes of a file, 0 where there is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _was_followed(store: Store, path: str) -> bool:
    with LogFile(path) as file:
        return any(source.path == path and file.same(source) for source in store.sources())


def _note(store: Store, path: str, run: str) -> Source:
    """Note where a run came from, so that whoever watches that file goes on there."""
    mode = STREAM if store.reader_state(run) else SETTLED
    with LogFile(path) as file:
        source = file.read_to(Source(run, 0, None, path, path, mode=mode), store.run(run).offset)
    store.note_source(source)
    return source


def _read_by_watching(store: Store, watcher: Watcher, path: str) -> list[Read]:
    before = {run.id: store.version(run.id) for run in store.runs()}
    found = []
    for log in watcher.read(path):
        if log.problem is not None:
            found.append(Read(log.base, error=log.problem.code, message=log.problem.message))
        elif not log.sources:
            found.append(_nothing(log.base))
        elif not is_there(store, log.sources[-1]):
            found.append(Read(log.base, error="deleted", message=Text(DELETED)))
        else:
            run = log.sources[-1].job or log.sources[-1].run
            found.append(Read(log.base, run, known=before.get(run) == store.version(run)))
    return found


def _nothing(path: str) -> Read:
    """Return what is said of a file that holds nothing to store; of an empty one the same as where it is named alone."""
    empty = os.path.isfile(path) and not os.path.getsize(path)
    return Read(path, error="empty" if empty else "no_metrics", message=Text(EMPTY if empty else NOTHING_FOUND))

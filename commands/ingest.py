"""`cli.py ingest`: files, folders and the standard input into the store."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from commands.common import UNREADABLE, USAGE, counted, desk_of, print_json, verb
from server.desk import PIECE_BYTES, Desk, arriving
from storage.types import UnreadableLog

NOT_THERE = {"FileNotFoundError", "PermissionError"}


@verb
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--name", default="stdin", show_default=True, help="What the run of the standard input is called.")
def ingest(paths: tuple[str, ...], name: str, data_dir: Path | None, as_json: bool) -> None:
    """Read files, all logs of folders, or (-) the standard input into the store.

    What is there already is recognised and not doubled; a log that has grown goes on where it was. While a server has the
    store open, it does the reading. The standard input is stored as it comes: train.py 2>&1 | tee log | cli.py ingest -
    """
    desk = desk_of(data_dir)
    try:
        found = [one for path in paths for one in _ingest(desk, path, name)]
    finally:
        desk.close()
    if as_json:
        print_json(found)
    for one in [] if as_json else found:
        click.echo(_ingested_line(one))
    errors = {one["error"] for one in found if "error" in one}
    sys.exit(0 if not errors else USAGE if errors & NOT_THERE else UNREADABLE)


def _ingest(desk: Desk, path: str, name: str) -> list[dict[str, Any]]:
    try:
        return [desk.send(_standard_input(), name)] if path == "-" else desk.read(Path(path))
    except UnreadableLog as error:
        return [{"file": path, "error": error.code, "message": str(error)}]
    except (FileNotFoundError, PermissionError) as error:  # the others are read all the same
        return [{"file": path, "error": type(error).__name__, "message": str(error)}]


def _standard_input() -> Iterator[bytes]:
    try:
        return arriving(sys.stdin.fileno())
    except (OSError, ValueError):  # no file descriptor behind it
        return iter(lambda: sys.stdin.buffer.read(PIECE_BYTES), b"")


def _ingested_line(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"{answer['file']}: {answer['message']}"
    state = "already in the store" if answer["known"] else counted(answer["rows"], "record")
    return f"{answer['file']}: run {answer['run']}, {state}, {answer['verdict']}"

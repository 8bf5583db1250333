"""`cli.py verify`: is everything as it was written?"""

import sys
from pathlib import Path

import click

from commands.common import USAGE, open_service, print_json, verb


@verb
def verify(data_dir: Path | None, as_json: bool) -> None:
    """Read everything in the store and say what is damaged; exit code 4 when something is."""
    service = open_service(data_dir)
    try:
        faults = service.store.verify()
        notes = [note.message.render() for note in service.store.notes()]
    finally:
        service.close()
    answer = [{"run": each.run, "file": each.file, "message": each.message.render()} for each in faults]
    if as_json:
        print_json({"sound": not faults, "faults": answer, "notes": notes})
    for line in [] if as_json else [f"{each['run']} {each['file']}: {each['message']}" for each in answer] + notes:
        click.echo(line)
    if not faults and not as_json:
        click.echo("Everything is as it was written.")
    sys.exit(USAGE if faults else 0)

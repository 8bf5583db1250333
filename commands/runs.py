"""`cli.py runs`: what the store holds."""

from pathlib import Path

import click

from commands.common import desk_of, print_json, run_line, verb


@verb
def runs(data_dir: Path | None, as_json: bool) -> None:
    """List the runs in the store."""
    desk = desk_of(data_dir)
    try:
        listed = desk.runs()
    finally:
        desk.close()
    if as_json:
        print_json(listed)
    for run in [] if as_json else listed:
        click.echo(run_line(run))

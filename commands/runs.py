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
        return
    if not listed:
        click.echo("No run yet: `python cli.py ingest FILE` reads a log into the store.", err=True)
    for run in listed:
        click.echo(run_line(run))

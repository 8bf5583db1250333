"""`cli.py compact`: freed space back to the disk."""

from pathlib import Path

import click

from commands.common import print_json, verb
from server.settings import load_settings
from storage.keeping import care


@verb
def compact(data_dir: Path | None, as_json: bool) -> None:
    """Give back to the disk what was freed in the warehouse; the store must not be open elsewhere."""
    before, after = care.compact(load_settings(data_dir=data_dir).data_dir)
    print_json({"before": before, "after": after}) if as_json else click.echo(f"{before} bytes before, {after} after")

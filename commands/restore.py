"""`cli.py restore`: a backup becomes the store."""

from pathlib import Path

import click

from commands.common import print_json, verb
from server.settings import load_settings
from storage.keeping import care


@verb
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def restore(folder: Path, data_dir: Path | None, as_json: bool) -> None:
    """Put the backup in FOLDER into a data directory that has no store."""
    target = load_settings(data_dir=data_dir).data_dir
    size = care.restore(folder, target)
    print_json({"folder": str(target), "bytes": size}) if as_json else click.echo(f"{target}: {size} bytes")

"""`cli.py backup`: a copy of the whole store."""

from pathlib import Path

import click

from commands.common import open_service, print_json, verb


@verb
@click.argument("folder", type=click.Path(path_type=Path))
def backup(folder: Path, data_dir: Path | None, as_json: bool) -> None:
    """Copy the whole store to FOLDER, which must not be there yet."""
    service = open_service(data_dir)
    try:
        size = service.store.backup(folder)
    finally:
        service.close()
    print_json({"folder": str(folder), "bytes": size}) if as_json else click.echo(f"{folder}: {size} bytes")

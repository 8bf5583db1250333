"""`cli.py follow`: a log as it grows."""

import json
from pathlib import Path

import click

from commands.common import desk_of, run_line, verb


@verb
@click.argument("file", type=click.Path(path_type=Path))
def follow(file: Path, data_dir: Path | None, as_json: bool) -> None:
    """Follow FILE as it grows until Ctrl-C, through rotation too; print how its run is whenever that changes.

    With --json one object a line. The same file goes on where it was read to, with or without a running server.
    """
    desk, before = desk_of(data_dir), None
    try:
        for run in desk.follow(file.absolute()):
            if run is not None and run != before:
                click.echo(json.dumps(run, ensure_ascii=False, default=str) if as_json else run_line(run))
            before = run
    except KeyboardInterrupt:
        pass
    finally:
        desk.close()

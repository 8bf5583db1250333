"""`cli.py export`: a run as CSV or Parquet."""

from pathlib import Path

import click

from commands.common import USAGE, counted, open_service, print_json, refuse, verb


@verb
@click.argument("run")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export(run: str, file: Path, data_dir: Path | None, as_json: bool) -> None:
    """Write every row of RUN (its id or its name) to FILE: CSV or Parquet, by its name."""
    service = open_service(data_dir)
    try:
        rows = service.store.export(service.find_run(run), file)
    except ValueError as error:
        refuse(str(error), USAGE, "ValueError", as_json)
    finally:
        service.close()
    print_json({"file": str(file), "rows": rows}) if as_json else click.echo(f"{file}: {counted(rows, 'row')}")

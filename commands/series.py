"""`cli.py series`: the points of one metric."""

from pathlib import Path

import click

from commands.common import desk_of, print_json, verb


@verb
@click.argument("run")
@click.argument("metric")
def series(run: str, metric: str, data_dir: Path | None, as_json: bool) -> None:
    """Print every point of METRIC (canonical name or as printed) of RUN (its id or its name)."""
    desk = desk_of(data_dir)
    try:
        points = desk.series(run, metric)
    finally:
        desk.close()
    if as_json:
        print_json(points)
    for step, value in [] if as_json else zip(points["step"], points["value"], strict=True):
        click.echo(f"{step}\t{value}")

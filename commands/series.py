"""`cli.py series`: the points of one metric."""

from contextlib import ExitStack
from pathlib import Path

import click

from commands.common import desk_for, print_json, run_of, verb


@verb
@click.argument("run")
@click.argument("metric")
def series(run: str, metric: str, data_dir: Path | None, as_json: bool) -> None:
    """Print every point of METRIC (canonical name or as printed) of RUN (a file, or a run in the store by id or name)."""
    with ExitStack() as stack:
        desk = desk_for(stack, [run], data_dir)
        points = desk.series(run_of(desk, run), metric)
    if as_json:
        print_json(points)
    for step, value in [] if as_json else zip(points["step"], points["value"], strict=True):
        click.echo(f"{step}\t{value}")

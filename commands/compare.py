"""`cli.py compare`: runs or files side by side: what differs, whether that is fair, and which is better by how much."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from analysis.compare.align import AXES
from analysis.compare.as_dict import as_dict
from commands.common import USAGE, open_service, plain, print_json, refuse, verb
from server.compare import comparison
from server.costs import Wishes
from server.service import Service
from server.settings import Settings
from storage.intake.ingest import ingest_file


@verb
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--x", "axis", type=click.Choice(AXES), help="Compare at equal values of this (default: the fairest there is).")
@click.option("--metric", help="What to compare (default: the main loss).")
@click.option("--base", help="The run to compare with (default: the first).")
@click.option("--reach", type=float, help="The loss that “what it took” is about.")
@click.option("--gpus", type=int, help="Number of GPUs, where a log does not say it.")
@click.option("--price", type=float, help="Price of one GPU for an hour.")
def compare(
    runs: tuple[str, ...],
    axis: str | None,
    metric: str | None,
    base: str | None,
    reach: float | None,
    gpus: int | None,
    price: float | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Compare RUNs, each a file or a run in the store (id or name), with the first of them."""
    with ExitStack() as stack:
        service = _service(stack, runs, data_dir)
        ids = [_run_id(service, run) for run in runs]
        lead = ids[0] if base is None else ids[runs.index(base)] if base in runs else _run_id(service, base)
        wishes = Wishes(gpus=gpus, price=price)
        if lead not in ids:
            ids.append(lead)
        try:
            told = comparison(service, ids, base=lead, wishes=wishes, axis=axis, metric=metric, reach=reach)
        except ValueError as error:
            refuse(str(error), USAGE, type(error).__name__, as_json)
    answer = plain(as_dict(told))
    print_json(answer) if as_json else _print(answer)


def _service(stack: ExitStack, runs: tuple[str, ...], data_dir: Path | None) -> Service:
    """Return the store, or for files alone one of their own that is gone afterwards."""
    if all(Path(run).is_file() for run in runs):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="runvitals-"))
        service = Service.open(Settings(data_dir=Path(folder)))
    else:
        service = open_service(data_dir)
    stack.callback(service.close)
    return service


def _run_id(service: Service, run: str) -> str:
    path = Path(run)
    return ingest_file(service.store, path, name=path.name).run_id if path.is_file() else service.find_run(run)


def _print(answer: dict[str, Any]) -> None:
    names = {one["run"]: one["name"] for one in answer["runs"]}
    click.echo(answer["verdict"]["text"])
    for pair in answer["pairs"] if len(answer["pairs"]) > 1 else []:
        click.echo(f"  {pair['text']}")
    for state in answer["states"]:
        click.echo(f"  ! {state['text']}")
    for pair in answer["pairs"]:
        for text in [pair["parting"], *(one["text"] for one in pair["expected"])]:
            click.echo(f"  {text}") if text else None
    for reason in answer["reasons"]:
        click.echo(f"  {reason['level']}: {reason['text']}")
    for note in answer["notes"]:
        click.echo(f"  {note}")
    for run, figures in answer["metrics"].items():
        told = [f"{key} {figures[key]:.4g}" for key in ("first", "last", "throughput", "hours", "goodput") if figures[key]]
        fall = f", fell {figures['fall'][1]:.1%}" if figures["fall"] else ""
        click.echo(f"  {names[run]}: {', '.join(told)}{fall}")

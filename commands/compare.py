"""`cli.py compare`: runs or files side by side: what differs, whether that is fair, and which is better by how much."""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from analysis.compare.align import AXES
from analysis.ledger import readable
from commands.common import USAGE, desk_for, plain, print_json, refuse, run_of, spoken, verb

UNITS = {"tokens_per_second": "tokens/s", "samples_per_second": "samples/s", "steps_per_second": "steps/s"}
UNITS |= {"step": "steps", "tokens": "tokens", "samples": "samples", "hours": "h", "gpu_hours": "GPU-hours", "money": "money"}


@verb
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--x", "axis", type=click.Choice(AXES), help="Compare at equal values of this (default: the fairest there is).")
@click.option("--metric", help="What to compare (default: the main loss).")
@click.option("--base", help="The run to compare with (default: the first healthy one that is like most).")
@click.option("--reach", help="What “what it took” is about: a loss (4.5), or a share of the first loss (60%).")
@click.option("--gpus", type=int, help="Number of GPUs, where a log does not say it.")
@click.option("--price", type=float, help="Price of one GPU for an hour.")
def compare(
    runs: tuple[str, ...],
    axis: str | None,
    metric: str | None,
    base: str | None,
    reach: str | None,
    gpus: int | None,
    price: float | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Compare RUNs, each a file or a run in the store (id or name), with one of them."""
    asked = {"axis": axis, "metric": metric, "reach": reach, "gpus": gpus, "price": price}
    with ExitStack() as stack:
        desk = desk_for(stack, runs, data_dir)
        ids = {run: run_of(desk, run) for run in [*runs, *([base] if base else [])]}
        try:
            answer = desk.compare([ids[run] for run in runs], ids[base] if base else None, asked)
        except ValueError as error:
            refuse(str(error), USAGE, type(error).__name__, as_json)
    print_json(plain(answer)) if as_json else _print(spoken(answer))


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
        told = [*_figures(figures), *_took(figures["reached"], answer["target"])]
        click.echo(f"  {names[run]}: {', '.join(told) or 'no figures'}")


def _figures(one: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of a run, each with its name and unit."""
    if one["first"] is not None:
        long = f" (mean of its first {one['first_rows']:,} rows)" if one["first_rows"] > 1 else ""
        yield f"{one['metric']} {one['first']:.4g} at the start{long}"
        several = f" (mean of its last {one['end_points']:,} points)" if one["end_points"] > 1 else ""
        yield f"{one['end']:.4g} at the end{several}"
    if one["fall"]:
        yield f"{'fell' if one['fall'][1] >= 0 else 'rose'} by {abs(one['fall'][1]):.1%}"
    if one["throughput"]:
        yield f"{one['throughput']:.4g} {UNITS.get(one['unit'], one['unit'])}"
    if one["hours"]:
        amount, unit = readable(3600 * one["hours"])
        yield f"{amount:.3g} {unit} so far"
    if one["goodput"] is not None:
        yield f"{one['goodput']:.1%} productive"


def _took(reached: dict[str, list[float]], target: dict[str, float] | None) -> Iterator[str]:
    """Yield what it took a run to the target, on each axis that it has."""
    if target is None:
        return
    loss = f"{target['value']:.4g}" if "value" in target else f"{target['share_of_first']:.1%} of the first loss"
    if not reached:
        yield f"did not reach {loss}"
    for axis, (low, middle, high) in reached.items():
        if axis in UNITS:
            span = f"at least {low:,.4g}" if math.isinf(high) else f"{low:,.4g} to {high:,.4g}"
            yield f"{loss} after {middle:,.4g} {UNITS[axis]} ({span})"

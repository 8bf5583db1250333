"""`cli.py cost`: when a run is done, what it costs, what was wasted."""

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from commands.common import USAGE, desk_of, plain, print_json, refuse, verb
from server.costs import Outlook, Wishes, outlook
from server.service import cost_file
from server.settings import load_settings
from storage.reader import read_file
from storage.types import UnreadableLog


@verb
@click.argument("run")
@click.option("--gpus", type=int, help="Number of GPUs.")
@click.option("--gpu", help="Kind of GPU, as in analysis/prices.toml: H100, A100, …")
@click.option("--price", type=float, help="Price of one GPU for an hour.")
@click.option("--currency", help="Currency of price and budget (default USD).")
@click.option("--watts", type=float, help="Mean draw of one GPU in watts.")
@click.option("--pue", type=float, help="Energy of the building over that of the machines.")
@click.option("--co2", "co2_kg_per_kwh", type=float, help="Kilograms of CO₂ a kWh.")
@click.option("--storage", "storage_per_hour", type=float, default=0.0, help="What else runs by the hour.")
@click.option("--idle", "idle_share", type=float, default=0.0, help="Share of the paid time in which the GPUs stand idle.")
@click.option("--budget", type=float, help="Warn when the 90th percentile passes it.")
@click.option("--epoch-time", "meaning", type=click.Choice(["remaining", "total", "elapsed"]), help="What epoch_time means.")
@click.option("--steps", "total_steps", type=int, help="Planned steps, where the log does not print them.")
@click.option("--mtbf", "failure_hours", type=float, help="Hours between failures of this job.")
@click.option("--lost", "lost_hours", type=float, default=1.0, help="Hours lost with each failure (default 1).")
def cost(run: str, data_dir: Path | None, as_json: bool, **wishes: Any) -> None:
    """Say when RUN (a file, or a run in the store by id or name) is done, what it costs and what was wasted."""
    try:
        answer = plain(_of_file(Path(run), wishes, data_dir) if Path(run).is_file() else _of_run(run, wishes, data_dir))
    except ValueError as error:
        if isinstance(error, UnreadableLog):
            raise
        refuse(str(error), USAGE, type(error).__name__, as_json)
    print_json({"run": run, **answer}) if as_json else _print_costs(run, answer)


def _of_file(path: Path, wishes: dict[str, Any], data_dir: Path | None) -> dict[str, Any]:
    return cost_file(read_file(path), Wishes(**wishes), data_dir=load_settings(data_dir=data_dir).data_dir).to_dict()


def _of_run(run: str, wishes: dict[str, Any], data_dir: Path | None) -> dict[str, Any]:
    with closing(desk_of(data_dir)) as desk:
        return desk.cost(run, wishes)


def _print_costs(run: str, answer: dict[str, Any]) -> None:
    left, amounts = answer["remaining_s"], answer["cost"]
    elapsed = answer["elapsed_s"]
    source = f" ({answer['elapsed_source']})" if answer["epoch_time_assumed"] else ""
    click.echo(f"{run}: {_hours(elapsed)} so far{source}" if elapsed is not None else f"{run}: the log does not tell the time")
    if answer["elapsed_unknown"] and answer["elapsed_unknown"] != answer["remaining_unknown"]:
        click.echo(f"  {answer['elapsed_unknown']}")
    if answer["of_no_use"]:
        click.echo(f"  {answer['of_no_use']}")
    if answer["over"]:
        click.echo(f"  {left['source'] if left else answer['remaining_unknown']}")
    elif left:
        condition = "if it is finished all the same: " if answer["of_no_use"] else ""
        span = f"{_hours(left['p50'])} left ({_hours(left['p10'])} to {_hours(left['p90'])})"
        ends = _done(answer["ends"]["p50"], left["p50"]) if answer["ends"] else ""
        click.echo(f"  {condition}{span}{ends}: {left['source']}")
    else:
        click.echo(f"  no time left: {answer['remaining_unknown']}")
    if amounts["spent"] is not None:
        total = {} if answer["over"] else amounts["total"] or {}
        end = f" of {total['p50']:,.2f} ({total['p10']:,.2f} to {total['p90']:,.2f})" if total else ""
        click.echo(f"  {amounts['spent']:,.2f}{end} {amounts['currency']}: {amounts['sources']['price']}")
    said = left["source"] if left and not answer["over"] else None
    for text in (answer["epoch_time_text"], *answer["warnings"], *answer["missing"], *answer["notes"]):
        click.echo(f"  {text}") if text and text != said else None
    if answer["goodput"] is not None:
        click.echo(f"  {answer['goodput']:.1%} productive")
    for item in (answer["waste"] or [])[:3]:
        click.echo(f"    {item['text']}")


def _done(end: str, left_s: float) -> str:
    """Return when it is done, `left_s` seconds after its last line; a date that has passed is no promise."""
    date = datetime.fromisoformat(end)
    words = {
        Outlook.AHEAD: ", done {date} UTC",
        Outlook.SILENT: ", done {date} UTC if it goes on",
        Outlook.PASSED: ", would have been done {date} UTC if it had gone on",
    }
    return words[outlook(date, date - timedelta(seconds=left_s))].format(date=end[:16])


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f} h" if seconds >= 7200 else f"{seconds / 60:.1f} min"

"""`cli.py read`: what a file holds."""

from pathlib import Path
from typing import Any

import click

from commands.common import counted, file_argument, print_json, span, verb
from storage.reader import read_file
from storage.reading.summary import summarise


@verb
@file_argument
def read(file: Path, data_dir: Path | None, as_json: bool) -> None:
    """Say what FILE holds: format, steps, columns, configuration, events, and what was not understood."""
    summary = {"file": str(file), **summarise(read_file(file))}
    print_json(summary) if as_json else _print_summary(summary)


def _print_summary(summary: dict[str, Any]) -> None:
    click.echo(f"{summary['file']}: {summary['format_title'] or 'format not recognised'}, {summary['encoding']}")
    click.echo(
        f"  {counted(summary['lines'], 'line')}, {counted(summary['records'], 'training record')}, "
        f"{counted(summary['eval_records'], 'evaluation')}, {counted(summary['segments'], 'launch', 'launches')}, "
        f"{counted(summary['unparsed']['count'], 'line')} not understood"
    )
    steps = span("steps", summary["first_step"], summary["last_step"]) or "no steps printed"
    click.echo(f"  {steps}, {span('loss', summary['first_loss'], summary['last_loss']) or 'no training loss printed'}")
    for name, column in summary["columns"].items():
        unit = f" {column['unit']}" if column["unit"] else ""
        click.echo(f"  {name} ({column['printed']}): {column['first']} → {column['last']}{unit}, {column['count']} values")
    for event in summary["events"][:20]:
        click.echo(f"  line {event['line']}: {event['kind']}: {event['text'][:120]}")
    for item in summary["unparsed"]["first"]:
        click.echo(f"  line {item['line']} not understood ({item['reason']}): {item['text'][:120]}")
    for note in summary["notes"]:
        click.echo(f"  {note}")

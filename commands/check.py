"""`cli.py check`: is the run healthy?"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from commands.common import USAGE, file_argument, plain, print_json, refuse, verb
from messages import N_, Text
from server.service import diagnose_file
from server.settings import load_settings
from server.thresholds import BadThreshold, parse
from storage.reader import read_file
from storage.types import ParseReport

EXIT_OF_VERDICT = {"healthy": 0, "watch": 1, "sick": 2, "failed": 2, "unreadable": 3}


@verb
@file_argument
@click.option("--profile", type=click.Choice(["robust", "articles"]), help="Which thresholds to use.")
@click.option(
    "--threshold", "given", multiple=True, metavar="RULE.NAME=VALUE", help="Replace a threshold, as spike.z=8; repeatable."
)
def check(file: Path, profile: str | None, given: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Diagnose FILE. Exit code 0 healthy, 1 watch, 2 sick or failed, 3 unreadable."""
    profile = profile or load_settings().profile
    try:
        own = parse(given, profile)
    except BadThreshold as error:
        refuse(str(error), USAGE, "BadThreshold", as_json)
    result = read_file(file)
    diagnosis = diagnose_file(result, profile=profile, thresholds=own)
    verdict = diagnosis.verdict
    answer = {**plain(diagnosis.to_dict()), "notes": [note.render() for note in _notes(result.report)]}
    print_json({"file": str(file), **answer}) if as_json else _print_diagnosis(answer)
    sys.exit(EXIT_OF_VERDICT[verdict])


def _notes(report: ParseReport) -> Iterator[Text]:
    """Yield what to mind about the log: of lines that were not understood the verdict says nothing."""
    if report.unparsed:
        gaps = {"count": report.unparsed_count, "line": report.unparsed[0].line}
        yield Text(N_("Lines not understood: {count}, the first is line {line}. The verdict says nothing about them."), gaps)
    yield from report.notes


def _print_diagnosis(answer: dict[str, Any]) -> None:
    click.echo(f"{answer['verdict'].upper()}: {answer['sentence']}")
    for note in answer["notes"]:
        click.echo(f"  note: {note}")
    for finding in answer["findings"]:
        click.echo(f"  [{finding['severity']}] {finding['title']}")
        for item in finding["evidence"]:
            click.echo(f"      {item['label']}: {item['value']} {item['unit']}".rstrip())
        for cause in finding["causes"]:
            click.echo(f"      {_cause(cause)}")
        for advice in finding["advice"]:
            click.echo(f"      do: {advice}")
    for item in answer["not_assessable"]:
        click.echo(f"  not assessable: {item['rule']}: {item['text']}")


def _cause(cause: dict[str, Any]) -> str:
    """Return a cause with how it stands and why: without evidence it is only possible."""
    said = [*cause["supports"], *(f"but {text}" for text in cause["contradicts"])]
    why = "; ".join(said) or "nothing in the log for or against it"
    return f"{cause['standing']} cause: {cause['text']} ({why})"

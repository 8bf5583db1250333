"""`cli.py data-check`: a JSONL corpus, line by line."""

import sys
from pathlib import Path
from typing import Any

import click

from commands.common import counted, file_argument, print_json, verb
from server.desk import PIECE_BYTES
from storage.reading.corpus import LIMIT
from storage.reading.corpus import check as check_corpus


@verb
@file_argument
@click.option("--field", default="text", show_default=True, help="The field that holds the text of a sample.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="Characters; longer is over-long.")
def data_check(file: Path, field: str, limit: int, data_dir: Path | None, as_json: bool) -> None:
    """Check FILE, a JSONL corpus of any size. Exit code 0 sound, 1 lines need attention, 3 unreadable."""
    with file.open("rb") as corpus:
        report = check_corpus(iter(lambda: corpus.read(PIECE_BYTES), b""), field=field, limit=limit)
    answer = {"file": str(file), **report.to_dict()}
    print_json(answer) if as_json else _print_corpus(answer)
    sys.exit(1 if any(report.counts.values()) or not report.texts else 0)


def _print_corpus(answer: dict[str, Any]) -> None:
    texts = f"{counted(answer['texts'], 'text')} in {counted(answer['records'], 'record')}"
    click.echo(f"{answer['file']}: {texts}, {answer['encoding']}")
    lengths = ", ".join(f"{name} {answer[name]}" for name in ("p50", "p95", "p99", "longest"))
    click.echo(f"  characters: {answer['characters']} in all; {lengths}")
    for kind, count in answer["counts"].items():
        lines = [str(problem["line"]) for problem in answer["problems"] if problem["kind"] == kind][:10]
        if count:
            click.echo(f"  {kind}: {count} (line {', '.join(lines)}{' …' if count > len(lines) else ''})")
    others = [name for name in answer["fields"] if name != answer["field"]]
    if answer["counts"]["missing"] and others:
        click.echo(f"  the objects have the fields {', '.join(others)}; --field names the one with the text")

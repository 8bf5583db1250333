"""`cli.py retain`: what is old goes, as the settings say."""

from dataclasses import asdict
from pathlib import Path

import click

from commands.common import open_service, print_json, verb
from server import care


@verb
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def retain(dry_run: bool, data_dir: Path | None, as_json: bool) -> None:
    """Let go of lines, rows and aggregates that are older than the settings say; the server does it once a day."""
    service = open_service(data_dir)
    try:
        plan = care.retain(service, dry_run=dry_run)
    finally:
        service.close()
    if as_json:
        print_json({"dry_run": dry_run, **asdict(plan), "bytes": sum(step.bytes for step in plan.steps)})
        return
    for step in plan.steps:
        click.echo(f"{step.run}  {step.name}: {step.count} {step.what} go, {step.kept} stay, about {step.bytes} bytes")
    click.echo(f"{'Would free' if dry_run else 'Freed'} about {sum(step.bytes for step in plan.steps)} bytes.")
    if plan.held:
        click.echo(f"Held, so nothing of them goes: {', '.join(plan.held)}")

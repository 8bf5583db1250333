"""The command line of Runvitals: the same code as the pages, for scripts and terminals. See docs/cli.md.

A verb is one file in `commands/`.
"""

import click

from commands.common import Verbs


@click.group(cls=Verbs)
def cli() -> None:
    """Runvitals: is my training run healthy? Reads plain training logs."""


if __name__ == "__main__":
    cli()

"""The command line of Runvitals: the same code as the pages, for scripts and terminals. See docs/cli.md.

A verb is one file in `commands/`.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

OURS = Path(__file__).resolve().parent / ".venv"  # that scripts/run makes

if __name__ == "__main__" and not (find_spec("click") and find_spec("pyarrow")):
    if (OURS / "bin" / "python").exists() and Path(sys.prefix) != OURS:
        os.execv(OURS / "bin" / "python", [str(OURS / "bin" / "python"), *sys.argv])
    print("The packages of Runvitals are not installed: pip install -r requirements.txt, or scripts/run once.", file=sys.stderr)
    sys.exit(3)

import click  # noqa: E402

from commands.common import Verbs  # noqa: E402


@click.group(cls=Verbs)
def cli() -> None:
    """Runvitals: is my training run healthy? Reads plain training logs."""


if __name__ == "__main__":
    cli()

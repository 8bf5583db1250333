"""What all verbs share: options, how they are found, how they answer and refuse."""

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import click

from messages import Text, verbatim
from server import words
from server.answers import UnknownMetric
from server.desk import Desk, Here, open_desk
from server.service import Service
from server.settings import Settings, SettingsError, load_settings
from storage.reading import formats
from storage.store import StoreError, UnknownRun
from storage.types import UnreadableLog

UNREADABLE = 3
USAGE = 4  # what can't be done as asked: no such file, store in use, unknown run

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="RUNVITALS_DATA_DIR",
    help="Where the store lives (default ./data).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


class Verbs(click.Group):
    """The verbs in the folder of this file; only the one that is asked for is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        files = Path(__file__).parent.glob("[!_]*.py")
        return sorted(file.stem.replace("_", "-") for file in files if file.stem != Path(__file__).stem)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb by its name, None where there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = cmd_name.replace("-", "_")
        found: click.Command = getattr(importlib.import_module(f"commands.{module}"), module)
        return found


def verb(function: Callable[..., Any]) -> click.Command:
    """Make a verb with the options that all share, and turn known errors into one sentence and an exit code."""

    @wraps(function)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            formats.use((options.get("data_dir") or load_settings().data_dir) / "formats")
            function(*args, **options)
        except UnreadableLog as error:
            refuse(str(error), UNREADABLE, error.code, options.get("as_json", False))
        except UnknownRun as error:
            refuse(_unknown(str(error), options), USAGE, type(error).__name__, options.get("as_json", False))
        except (StoreError, UnknownMetric, SettingsError, FileNotFoundError, PermissionError) as error:
            refuse(str(error), USAGE, type(error).__name__, options.get("as_json", False))

    return click.command(function.__name__.replace("_", "-"))(data_dir_option(json_option(guarded)))


def _unknown(message: str, options: Mapping[str, Any]) -> str:
    """Return the message that a run is unknown, with what else that name may be: a folder, a file that is not there."""
    asked = [options.get("run"), options.get("base"), *(options.get("runs") or ())]
    name = next((one for one in asked if one and repr(one) in message), None)
    if name is None or not message.startswith("No run"):
        return message
    if Path(name).is_dir():
        return f"{message} {name} is a folder: name a log in it, or read all of it in with `cli.py ingest {name}`."
    looks_like_a_file = Path(name).suffix or Path(name).name != name
    return f"{message} There is no file {name} either." if looks_like_a_file else message


def open_service(data_dir: Path | None) -> Service:
    """Open the store itself. Raises StoreLocked while another process has it."""
    return Service.open(load_settings(data_dir=data_dir))


def desk_of(data_dir: Path | None) -> Desk:
    """Open the store, or the server that has it."""
    return open_desk(load_settings(data_dir=data_dir))


def desk_for(stack: ExitStack, runs: Sequence[str], data_dir: Path | None) -> Desk:
    """Return the store or the server that has it, for files alone a store of their own that is gone afterwards."""
    if all(Path(run).is_file() for run in runs):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="runvitals-"))
        desk: Desk = Here(Service.open(Settings(data_dir=Path(folder))))
    else:
        desk = desk_of(data_dir)
    stack.callback(desk.close)
    return desk


def run_of(desk: Desk, run: str) -> str:
    """Return a run by what it is called; a file is read first. Raises UnreadableLog."""
    if not Path(run).is_file():
        return run
    found = desk.read(Path(run))[0]
    if "error" in found:
        raise UnreadableLog(found["error"], verbatim(found["message"]))
    return str(found["run"])


def plain(value: Any, say: Callable[[dict[str, Any]], str] = itemgetter("text")) -> Any:
    """Return `value` with every `messages.Text` in its dict form replaced by its English sentence, or by that of `say`."""
    if isinstance(value, dict):
        if set(value) == {"template", "values", "text"}:
            return say(value)
        return {key: plain(item, say) for key, item in value.items()}
    return [plain(item, say) for item in value] if isinstance(value, list | tuple) else value


def spoken(value: Any) -> Any:
    """Return `value` as `plain` does, the numbers in sentences written for people: 4,980,000."""
    return plain(value, lambda text: words.say(Text.from_dict(text), "en"))


def print_json(value: Any) -> None:
    """Print as Python's json does: a NaN in the log stays NaN (not valid strict JSON, and nothing else would be true)."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=1, default=str))


def run_line(run: dict[str, Any]) -> str:
    """Return a run as one line for people."""
    lanes = f", {run['lanes']} lanes" if run["lanes"] > 1 else ""
    steps = span("steps", run["first_step"], run["last_step"]) or "no steps"
    return f"{run['run']}  {run['name']}  {counted(run['rows'], 'row')}, {steps}{lanes}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun in the singular or the plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def span(name: str, first: Any, last: Any) -> str:
    """Return `name first to last`, "" where the log does not say it."""
    return "" if first is None or last is None else f"{name} {first} to {last}"


def refuse(message: str, code: int, word: str, as_json: bool) -> NoReturn:
    """Say why it can't be done and end with the exit code."""
    if as_json:
        unreadable = {"verdict": "unreadable"} if code == UNREADABLE else {}
        print_json({**unreadable, "error": word, "message": message})
    click.echo(message, err=True)
    sys.exit(code)

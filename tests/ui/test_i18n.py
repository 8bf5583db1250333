"""No string without its translation: what scripts/i18n --check says, it says here."""

import re
import subprocess
import sys
from pathlib import Path

from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[2]


def test_every_message_is_translated():
    done = subprocess.run([sys.executable, "scripts/i18n", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run scripts/i18n and translate:\n{done.stdout}\n{done.stderr}"


COUNTED = re.compile(
    r"\{(n|count|rows|lines|records|files|bytes|steps|more|equal|runs|texts|all|checkpoints|days|marked)(:,)?\} "
    r"(?:[a-z]+ ){0,2}[a-z]+s\b"
)
NEVER_ONE = {  # fixed choices, limits, and numbers that are two at least
    "By {n} steps",
    "Compare {n} runs",
    "It can say little before {n} rows.",
    "More than {n} rows: zoom in, or on the server: python cli.py export {run} FILE.parquet",
    "None: costs use the {n} public list prices. Put in what you really pay.",
    "Stretches of {n} steps.",
    "from {known} of {all} runs",
    "{applied} of {all} rules applied",
    "{count} golden runs of your own",
    "{count} simulated golden runs that ship with Runvitals",
    "{lines} lines and {bytes} bytes a step, {line} bytes a line",
    "{passed} of {all} items are passed.",
}


def test_what_is_counted_has_a_singular():
    """A number with a noun in the plural goes through ngettext, or stands behind a colon."""
    with (ROOT / "locale" / "zh_CN" / "LC_MESSAGES" / "runvitals.po").open("rb") as file:
        messages = [message for message in read_po(file) if isinstance(message.id, str) and message.id]
    shown = [one.id for one in messages if any(path.startswith(("ui/", "pages/")) for path, _line in one.locations)]
    assert {text for text in shown if COUNTED.search(text)} <= NEVER_ONE


DOES_RUN = re.compile(
    "(?:上|仍在|正在|继续|能|当时没有|还需|请|间)运行|在运行中|运行(?:着|时间| py| all| python| Runvitals|厂商|什么)"
)


def test_a_run_has_one_word_in_chinese():
    """A run is 训练, counted with 次; 运行 is what a process, a command or a machine does."""
    with (ROOT / "locale" / "zh_CN" / "LC_MESSAGES" / "runvitals.po").open("rb") as file:
        strings = [string for message in read_po(file) if message.id for string in _strings(message)]
    assert [string for string in strings if "运行" in DOES_RUN.sub("", string)] == []


def _strings(message) -> tuple[str, ...]:
    return message.string if isinstance(message.string, tuple) else (message.string,)


def test_both_languages_of_the_page_have_a_catalogue_or_are_the_source():
    from ui import text

    assert text.catalogue("en") == {}
    assert len(text.catalogue("zh_CN")) > 100

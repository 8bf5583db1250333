"""Reads settings out of the text around the records, line by line; RE2 leaves only lines that may hold one.

Sure forms (argument dumps, commands, configuration blocks, facts) are read anywhere. Plain `key: value` blocks are read
only near the beginning of a log or of a launch, and a key whose value keeps changing is a metric and dropped.
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from storage.reading.config import commands, facts, plain
from storage.reading.config.values import MAX_KEY, MAX_TEXT, Value, flat, literal, pairs, value_of
from storage.reading.containers.lines import Lines

MAX_SETTINGS = 12_000
WEAK_LINES = 2000  # from the beginning of the log or of a launch: where plain blocks are believed
HEADER_LINES = 300  # before the first record of a later launch: where its header may stand
CODE_LINES = 40  # behind a line of source code: where they are not
MAX_BLOCK_LINES = 13_000
LINE_LIMIT = 20_000  # characters that patterns look at; of a longer line only a dump of arguments is read
MAX_CHANGES = 3
HIDDEN = "<hidden>"
_SECRET = re.compile(
    r"(?i)api[_-]?key|secret|passw(?:or)?d|(?:hub|hf|auth|access|wandb|bearer|refresh|api|github|gitlab|slack|bot)[_-]?token$|credential"
)
_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]*m|\((?:\w+ )?(?:\w+ )?pid=\d+[^)]{0,80}\)\s?|\[(?:rank|default)\d{1,5}\]:?\s?"
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[ T,\d:.]{0,16}\]?\s*"
    r"|\[(?:INFO|WARNING)[^\]]{0,80}\]\s*(?:[-\d: ,]{0,30}>>)?\s?|\[[\w./-]{1,60}:\d{1,6}:\w{1,60}\]\s?|INFO:[\w.]{1,60}:\s?"
    r"|\d\d/\d\d/\d{4} [\d:]{8} - \w+ - [\w.]{1,80} -\s?|- [\w.]{1,60} - \w+ - )+"
)
_DOTTED = re.compile(r"^\s*([A-Za-z_][\w ./-]{0,100}?)\s+\.{2,}\s+(\S.*?)\s*$")
_CALL = re.compile(r"\b(?:Namespace|\w{0,60}(?:Arguments|Args|Config|HParams|Options))\((.{3,})\)\s*$")
_OPENED = re.compile(r"\b(?:\w{0,60}(?:Arguments|Args|Config|Params|Options)|Namespace)\(\s*$")
_WHAT = r"(?:config(?:uration)?|arg(?:ument)?s|h(?:yper)?[-_ ]?params?(?:eters)?|settings|options|kwargs|cfg)"
_NAMED_DICT = re.compile(
    rf"{_WHAT}\b[^{{}}]{{0,40}}(\{{.*\}})\s*$",
    re.I,
)
_TITLE = re.compile(rf"{_WHAT}\b[^{{}}]{{0,40}}$", re.I)
_OPEN_DICT = re.compile(r"^\{['\"]\w[\w.-]*['\"]: ")
_PART = re.compile(r"^\s*(?:['\"\[\]{}()]|-?\d|True|False|None|true|false|null)")  # a warning may be printed between the lines
_LONG_CALL = re.compile(r"(?:Namespace|Arguments|Args|Config|HParams|Options)\(")
_NO_COMMAND = re.compile(r"^\s*#|\b[Uu]sage:|error:|^\s*File \"|[\"'`]\s*[,)]\s*$")
_NUMBERED = re.compile(r"^\s*\d{1,3}\.\s+")


class ConfigScanner:
    """Collects settings block by block; `result` may be asked at any time."""

    def __init__(self) -> None:
        self._settings: dict[str, Value] = {}
        self._sure: set[str] = set()
        self._changes: dict[str, int] = {}
        self._devices: dict[int, str] = {}
        self._command: list[str] = []  # the lines of a command so far
        self._kind = ""  # what block is open: json, call or plain
        self._body: list[str] = []
        self._depth = 0
        self._headed = False
        self._writer = ""  # whose lines they are, as the prefix says
        self._header = self._code = -1000  # the last lines with a heading and with source code
        self._launch: int | None = None  # where the log or its last launch began
        # The last blocks, HEADER_LINES or more: their lines, the numbers of these, and which of them were not read.
        self._recent: deque[tuple[Lines, np.ndarray, np.ndarray]] = deque()

    def feed(self, block: bytes | Lines, first_line: int, numbers: np.ndarray | None = None) -> None:
        """Take whole lines of UTF-8; `numbers` are their own numbers where they do not follow each other."""
        begin = first_line if numbers is None or not len(numbers) else int(numbers[0])
        early = self._launch is None or begin <= self._launch + WEAK_LINES
        lines = block if isinstance(block, Lines) else Lines(block, returns=True)
        sure = lines.fits(facts.TRIGGER)
        given = first_line + lines.number if numbers is None else numbers[lines.number]
        if not len(given):
            return
        self._launch = int(given[0]) if self._launch is None else self._launch
        self._remember(lines, given, ~sure & (given > self._launch + WEAK_LINES))
        if not (early or self._kind or self._command or sure.any()):
            return
        places = np.flatnonzero(sure | (given <= self._launch + WEAK_LINES))
        place = 0
        while place < len(lines):
            if not self._kind and not self._command:
                ahead = np.searchsorted(places, place)
                if ahead == len(places):
                    break
                place = int(places[ahead])
            text = _text(lines, place)
            if len(text) < LINE_LIMIT or not self._long(_text(lines, place, MAX_TEXT)):
                self._line(int(given[place]), text, bool(sure[place]))
            place += 1

    def _remember(self, lines: Lines, given: np.ndarray, unread: np.ndarray) -> None:
        """Keep a block until as many lines have come behind it as a header has."""
        self._recent.append((lines, given, unread))
        while sum(len(numbers) for _, numbers, _ in self._recent) - len(self._recent[0][1]) >= HEADER_LINES:
            self._recent.popleft()

    def launched(self, line: int) -> None:
        """Tell that another launch begins at this line: its header, before that and behind it, is read as the first one's was.

        That it begins is known from its first record, when its header has gone by. A later process has not seen it.
        """
        self._launch = line
        if self._kind == "plain":
            self._close()
        if self._kind or self._command:
            return
        places, self._header, self._code = (self._header, self._code), -1000, -1000
        for lines, given, unread in self._recent:
            wanted = unread & (given >= line - HEADER_LINES) & (given <= line + WEAK_LINES)
            unread &= ~wanted
            for place in np.flatnonzero(wanted):
                self._line(int(given[place]), _text(lines, int(place)), sure=False)
        if self._kind == "plain":
            self._close()
        self._kind, self._body, self._command = "", [], []
        self._header, self._code = places

    def result(self) -> dict[str, Value]:
        """Return the settings found so far: names as printed, values as numbers, booleans or text."""
        if self._kind == "plain":
            self._close()
        fickle = {key for key, count in self._changes.items() if count >= MAX_CHANGES} - self._sure
        kept = {key: value for key, value in self._settings.items() if key not in fickle}
        if self._devices:
            kept.setdefault("gpu", next(iter(self._devices.values())))
            kept.setdefault("gpu_count", len(self._devices))
        return kept

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able; a block that is open is lost."""
        return {
            "settings": self._settings,
            "sure": sorted(self._sure),
            "changes": self._changes,
            "devices": list(self._devices.items()),
            "launch": self._launch,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._settings, self._sure = dict(state["settings"]), set(state["sure"])
        self._changes, self._devices, self._launch = dict(state["changes"]), dict(state["devices"]), state["launch"]

    def _set(self, found: Iterable[tuple[str, Value]], *, sure: bool) -> bool:
        """Keep settings; return whether there were any. What is not sure gives way to what is."""
        some = False
        for key, value in found:
            some = True
            key = key.strip()[:MAX_KEY]
            if not key or (not sure and key in self._sure):
                continue
            if key not in self._settings and len(self._settings) >= MAX_SETTINGS:
                continue
            if self._settings.get(key, value) not in (value, HIDDEN):
                self._changes[key] = self._changes.get(key, 0) + 1
            self._settings[key] = HIDDEN if isinstance(value, str) and len(value) > 7 and _SECRET.search(key) else value
            if sure:
                self._sure.add(key)
        return some

    def _line(self, number: int, raw: str, sure: bool) -> None:
        """Take one line; without a trigger (`sure`) it can only continue something or be part of a plain block."""
        text = _PREFIX.sub("", raw)
        writer = _writer(raw[: len(raw) - len(text)])
        if self._kind in ("json", "call") and writer != self._writer:
            return  # a line of another process between
        self._writer = writer
        if (self._command or (sure and commands.may_start(text))) and self._continue_command(text):
            return
        if self._kind in ("json", "call"):
            self._continue(text)
            return
        if plain.is_code(text) and not _CALL.search(text) and not _OPENED.search(text):
            self._code = number
        if self._kind == "plain":
            if plain.belongs(text) and len(self._body) < MAX_BLOCK_LINES:
                self._body.append(text)
                self._header = number if plain.is_heading(text) else self._header
                return
            self._close()
        if plain.is_heading(text):
            self._header = number
        self._open(number, text, sure)

    def _open(self, number: int, text: str, sure: bool) -> None:
        """Take a line outside of any block: a whole setting, or the beginning of a block."""
        headed, coded = number - self._header <= 3, number - self._code <= CODE_LINES
        stripped = text.strip()
        if _OPENED.search(text) and not coded:
            self._begin("call", stripped.rsplit("(", 1)[1])
        elif stripped.endswith("{") and not coded and (stripped == "{" or headed):
            self._begin("json", "{")
        elif _OPEN_DICT.match(stripped) and not stripped.endswith("}"):
            self._begin("json", stripped)
        elif (
            not coded
            and self._set(plain.on_one_line(text), sure=False)
            or self._set(plain.single(text), sure=False)
            or (sure and self._one_line(text, coded))
        ):
            return
        elif not coded and plain.belongs(text) and number <= (self._launch or 0) + WEAK_LINES:
            self._kind, self._body, self._headed = "plain", [text], headed

    def _one_line(self, text: str, coded: bool) -> bool:
        """Take settings that stand on one line; return whether there were any."""
        if device := facts.smi_device(text):
            self._devices[device[0]] = device[1]
            return True
        found = _CALL.search(text)
        if found and not text.lstrip().startswith(("(", "#")) and (not coded or "Namespace(" in text):
            return self._set(pairs(found[1]), sure=True)
        if coded:
            return False
        dotted = _DOTTED.match(text)
        if dotted and not re.search(r"\[(?:OKAY|NO|YES|SUCCESS|FAIL)\]|\x1b", dotted[2]):
            inner = literal(dotted[2]) if dotted[2].startswith("{") else None
            found_here = (
                flat(inner, f"{dotted[1]}/") if isinstance(inner, dict) and inner else [(dotted[1], value_of(dotted[2]))]
            )
            return self._set(found_here, sure=True)
        named = _NAMED_DICT.search(text)
        data = literal(named[1]) if named else None
        if isinstance(data, dict):
            return self._set(flat(data), sure=True)
        return self._set(facts.facts(text), sure=False)

    def _long(self, text: str) -> bool:
        """Take a line that is too long for patterns; return whether it was a dump of arguments, `Args(a=1, …)` or a dict."""
        text = text.rstrip()
        call, begin = _LONG_CALL.search(text[:LINE_LIMIT]), text.find("{", 0, LINE_LIMIT)
        if call and text.endswith(")"):
            return self._set(pairs(text[call.end() : -1]), sure=True)
        if begin < 0 or not text.endswith("}") or not _TITLE.search(text[:begin][-80:]):
            return False
        data = literal(text[begin:])
        return isinstance(data, dict) and self._set(flat(data), sure=True)

    def _begin(self, kind: str, text: str) -> None:
        self._kind, self._body, self._depth = kind, [], 0
        self._continue(text)

    def _continue(self, text: str) -> None:
        """Take a line of an open block; close it where its brackets are closed, forget it where it grows beyond reason."""
        self._body.append(text)
        self._depth += sum(text.count(char) for char in "{[(") - sum(text.count(char) for char in "}])")
        if self._depth < (0 if self._kind == "call" else 1):
            self._close()
        elif len(self._body) > MAX_BLOCK_LINES:
            self._kind, self._body = "", []

    def _close(self) -> None:
        """Read the block that is complete."""
        kind, body, self._kind, self._body = self._kind, self._body, "", []
        if kind == "call":
            self._set(pairs(",".join(body).rstrip().removesuffix(")")), sure=True)
        elif kind == "json":
            data = literal("\n".join(body).rstrip(", ")) or literal("\n".join(filter(_PART.match, body)))
            if isinstance(data, dict) and len(data) > 2:
                self._set(flat(data), sure=True)
        else:
            self._set(plain.settings(body, headed=self._headed), sure=False)

    def _continue_command(self, text: str) -> bool:
        """Take a line of a command; return whether it was one."""
        text = _NUMBERED.sub("", text)  # lines of a pasted listing
        if not self._command and _NO_COMMAND.search(text):
            return False
        self._command.append(text.rstrip().removesuffix("\\"))
        if text.rstrip().endswith("\\") and len(self._command) < 500:
            return True
        words = commands.words_of(" ".join(self._command)[:MAX_TEXT])
        self._command = []
        found = list(commands.settings(words))
        return len(found) > 1 and self._set(found, sure=True)


def _writer(prefix: str) -> str:
    """Return which process a prefix names (Ray, torchrun's rank), empty where it names none."""
    found = re.search(r"\([^)]{0,80}pid=\d+[^)]{0,80}\)|\[(?:rank|default)\d{1,5}\]", prefix)
    return found[0] if found else ""


def _text(lines: Lines, index: int, limit: int = LINE_LIMIT) -> str:
    """Return a line with its indentation, cut."""
    start = int(lines.breaks[index - 1]) + 1 if index else 0
    end = min(int(lines.ends[index]), start + limit)
    return lines.block[start : max(end, start)].decode("utf-8", "replace")

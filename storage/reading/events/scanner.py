"""Finds events in blocks of text: RE2 leaves the few lines that may say something, the rules name what they say."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from storage.reading import wrapped
from storage.reading.containers.lines import Lines
from storage.reading.events.cause import FAILURES
from storage.reading.events.rules import RULES, TRIGGER, Rule
from storage.reading.events.tracebacks import Traceback, is_header
from storage.types import Event

MAX_EVENTS = 10_000
MAX_OF_A_KIND = 2_000  # of what may be printed at every step
TEXT_LIMIT = 300
LINE_LIMIT = 4_000  # characters of a line that are looked at
MERGED_LINES = {"checkpoint_saved": 40, "checkpoint_loaded": 40, "evaluation": 20, "resume": 5}  # one act, several lines
MAX_OPEN = 64
_REPEATED = 500  # lines within which the same text is one event: every rank prints it
_STEPPED = {"checkpoint_saved", "checkpoint_loaded", "resume", "evaluation", "skipped_iterations", "training_finished"}
_STEP = re.compile(r"(?i)(?:iteration|iter|step|update)s?[ _:=]{0,20}(\d{1,12})|checkpoint-(\d{1,12})|ckpt_?(\d{1,12})")
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_ROOT_FIELD = re.compile(r"^\s*(time|host|rank|exitcode|error_file)\s*: (.{1,300})$")
_DIGITS_TELL = re.compile(r"(?i)exit|code|skipp|signal|status|errno")
_DIGITS = str.maketrans("", "", "0123456789")
# Source code, shell traces, help texts and settings speak of events that did not happen.
_CODE = re.compile(
    r"^\s*(?:raise\s|def\s+\w+\s*\(|class\s+\w+.*:|return\b|import\s+\w|from\s+\S+\s+import\b|assert\s|print\w*\s*\(|@\w|#|//|/\*|\*\s"
    r"|(?:if|elif|while|for|with|except)\b.*:\s*(?:#.*)?$|(?:else|try|finally)\s*:"
    r"|\"\"\"|'''|\+{1,5} |\$ |>>> |[\w.\[\]]{1,80}\s*[+-]?=\s*[^=\s]|-{1,2}\w[\w-]*(?:[ ,=\[]|$)"
    r"|[\w.]{1,80}\s*\(\s*[rfb]{0,2}[\"']|[\w.]{1,80}\s*\(.*[\"'(,]\s*\)?,?$|[rfb]?\"[^\"]*\"\s*[,)%:]?|[rfb]?'[^']*'\s*[,)%:])"
)
_SETTING = re.compile(r"^\s*[\w./-]{1,80}\s+\.{3,}\s")


def scan(block: bytes, first_line: int) -> list[Event]:
    """Return the events of a text on its own; `first_line` is the number of its first line."""
    scanner = EventScanner()
    return scanner.feed(block, first_line) + scanner.finish()


@dataclass
class _Act:
    """The last event of a kind that several lines tell: its last line, its step, what the lines said (without digits)."""

    line: int
    step: int | None
    words: list[str]


class EventScanner:
    """Scans a log block by block. `counts` tells how many events of each kind there were, kept or not."""

    def __init__(self, *, limit: int = MAX_EVENTS) -> None:
        self.counts: Counter[str] = Counter()
        self._limit = limit
        self._kept: Counter[str] = Counter()
        self._open: list[Traceback] = []
        self._root: tuple[int, dict[str, Any]] | None = None
        self._last: dict[str, _Act] = {}
        self._texts: dict[str, int] = {}  # text -> line, to leave out repetitions
        self._known: dict[str, Rule | None] = {}  # text without digits -> rule

    def feed(self, block: bytes | Lines, first_line: int, numbers: np.ndarray | None = None) -> list[Event]:
        """Return the events of these whole lines; `numbers` are their own numbers where they do not follow each other."""
        lines = block if isinstance(block, Lines) else Lines(block, returns=True)
        places = np.flatnonzero(lines.fits(TRIGGER)).tolist()
        if not places and not self._open and not self._root:
            return []
        given = first_line + lines.number if numbers is None else numbers[lines.number]
        events: list[Event] = []
        at = 0
        for place in places:
            if place < at:
                continue
            while at < place and (self._open or self._root):
                events += self._follow(int(given[at]), _text(lines, at))
                at += 1
            events += self._line(int(given[place]), _text(lines, place))
            at = place + 1
        while at < len(lines) and (self._open or self._root):
            events += self._follow(int(given[at]), _text(lines, at))
            at += 1
        return events

    def finish(self) -> list[Event]:
        """Return what was still open: a traceback that the log cuts off."""
        events = [event for traceback in self._open for event in self._close(traceback)]
        self._open = []
        return events + self._end_root()

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {
            "counts": dict(self.counts),
            "kept": dict(self._kept),
            "open": [vars(traceback) for traceback in self._open],
            "root": self._root,
            "last": {kind: vars(act) for kind, act in self._last.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.counts, self._kept = Counter(state["counts"]), Counter(state["kept"])
        for fields in state["open"]:
            traceback = Traceback.__new__(Traceback)
            vars(traceback).update(fields)
            self._open.append(traceback)
        self._root = (state["root"][0], dict(state["root"][1])) if state["root"] else None
        self._last = {kind: _Act(**fields) for kind, fields in state["last"].items()}

    def _line(self, line: int, text: str) -> Iterator[Event]:
        """Yield the events of a line that has a trigger."""
        if self._open or self._root:
            mine, events = self._offer(line, text)
            yield from events
            if mine:
                return
        if is_header(text):
            if len(self._open) < MAX_OPEN:
                self._open.append(Traceback(line, text))
        elif _ROOT.search(text) and not _CODE.match(text):
            yield from self._end_root()
            self._root = (line, {})
        else:
            yield from self._named(line, text)

    def _follow(self, line: int, text: str) -> list[Event]:
        """Take a line without a trigger, for what is open."""
        return self._offer(line, text)[1]

    def _offer(self, line: int, text: str) -> tuple[bool, list[Event]]:
        """Offer a line to the open tracebacks and the root cause; return whether it is theirs, and what is complete now."""
        if self._root is not None:
            field = _ROOT_FIELD.match(text)
            if field:
                self._root[1][field[1]] = field[2].strip()
            elif line - self._root[0] > 12 or text.startswith("==="):
                return False, self._end_root()
            if field:
                return True, []
        for traceback in self._open:
            taken = traceback.feed(line, text)
            if taken == "other":
                continue
            if taken == "own":
                return True, []
            self._open.remove(traceback)
            return taken == "raised", list(self._close(traceback))
        return False, []

    def _close(self, traceback: Traceback) -> Iterator[Event]:
        """Yield the event of a traceback: of what its exception means, else `traceback`."""
        traceback.cut()
        text = f"{traceback.exception}: {traceback.message}".rstrip(": ") or "Traceback without its last line"
        rule, found = self._rule(text)
        data = traceback.data()
        kind = "interrupted" if data["exception"] == "KeyboardInterrupt" else "traceback"
        if rule is not None and found is not None and rule.kind in FAILURES and rule.kind != "exception":
            kind = rule.kind
            data |= rule.parse(text, found)
        yield from self._keep(traceback.ends, kind, text, data)

    def _named(self, line: int, text: str) -> Iterator[Event]:
        if _CODE.match(text) or (_SETTING.match(text) and "-checkpoint ..." not in text):
            return
        rule, found = self._rule(text)
        if rule is not None and found is not None:
            yield from self._keep(line, rule.kind, text, rule.parse(text, found))

    def _rule(self, text: str) -> tuple[Rule | None, re.Match[str] | None]:
        """Return the first rule that fits and its match; lines that differ in digits alone are looked up."""
        key = text.translate(_DIGITS)
        rule = self._known.get(key)
        if rule is not None and (found := rule.shows.search(text)):
            return rule, found
        if rule is None and key in self._known and not _DIGITS_TELL.search(text):
            return None, None
        for rule in RULES:
            found = rule.shows.search(text)
            if found and not (rule.unless and rule.unless.search(text)):
                break
        else:
            rule, found = None, None
        if len(self._known) < 10_000:
            self._known[key] = rule
        return rule, found

    def _keep(self, line: int, kind: str, text: str, data: dict[str, Any]) -> Iterator[Event]:
        """Yield the event unless it repeats one just seen or there are too many of its kind; count it."""
        step = _step(text) if kind in _STEPPED else None
        if kind in MERGED_LINES and self._same_act(line, kind, text, step):
            return
        seen = self._texts.get(text)
        if len(self._texts) > 2_000:
            self._texts.clear()
        self._texts[text] = line
        if seen is not None and line - seen <= _REPEATED and kind in FAILURES:
            return
        self.counts[kind] += 1
        common = kind not in FAILURES and self._kept[kind] >= MAX_OF_A_KIND
        if common or self._kept.total() >= self._limit:
            return
        self._kept[kind] += 1
        yield Event(line, kind, text.strip()[:TEXT_LIMIT], step, 0, data)

    def _same_act(self, line: int, kind: str, text: str, step: int | None) -> bool:
        """Return whether this line tells again what the lines shortly before it told: in other words, or of another rank."""
        key = text.translate(_DIGITS)
        act = self._last.get(kind)
        if act is not None and step in (None, act.step):
            near = line - act.line
            if near <= 3 or (near <= MERGED_LINES[kind] and key not in act.words):
                act.line = line
                act.words.append(key)
                return True
        self._last[kind] = _Act(line, step, [key])
        return False

    def _end_root(self) -> list[Event]:
        """Return the event of a root cause that was being read."""
        if self._root is None:
            return []
        (line, fields), self._root = self._root, None
        rank, code = fields.get("rank", "").split(" ")[0], fields.get("exitcode", "").split(" ")[0]
        data: dict[str, Any] = {key: fields[key] for key in ("host", "time") if key in fields}
        data |= {"rank": int(rank)} if rank.isdigit() else {}
        data |= {"exitcode": int(code)} if code.lstrip("-").isdigit() else {}
        text = "Root cause (first observed failure): " + ", ".join(f"{key} {value}" for key, value in fields.items())
        return list(self._keep(line, "child_failed", text, data))


def _text(lines: Lines, index: int) -> str:
    start, end = int(lines.starts[index]), int(lines.ends[index])
    return wrapped.printed(lines.block[_outer(lines, index) : min(end, start + LINE_LIMIT)].decode("utf-8", "replace"))


def _outer(lines: Lines, index: int) -> int:
    """Return where a line begins with its indentation: it tells code and frames from messages."""
    return int(lines.breaks[index - 1]) + 1 if index else 0


def _step(text: str) -> int | None:
    found = _STEP.search(text)
    return int(found[1] or found[2] or found[3]) if found else None

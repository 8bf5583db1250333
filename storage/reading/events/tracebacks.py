"""Python tracebacks: one event for each, at its last line, with the exception, the last frame and where it began.

Lines of several ranks may lie between; a traceback's own lines are known by what stands before them on each line.
"""

import re
from typing import Any

HEADER = "Traceback (most recent call last)"
MAX_LINES = 3000  # of one traceback, other ranks' lines between included
MAX_STRANGE = 200  # lines that are neither frame nor exception
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]{0,150}(?:\(\w{1,80}\))?)(?:: ?(?P<message>.*))?$", re.S)
_RAISED = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Fault|Timeout|Failure|Iteration|Stop|Abort\w*|Killed)\b|^[A-Za-z_]\w*(?:\.\w+)+$"
)
_FRAME = re.compile(r'^File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?')
_TIMES_OF = r"\d{1,9}(?:[:.,]\d{1,9})+"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_WARNING = re.compile(r"^(?:\[?rank\d+\]?:?)?W\d{4} |\bWARN(?:ING)?\b|^\[W\d{0,4}|DEBUG")


class Traceback:
    """A traceback that is being read: feed it the lines behind its header until it is complete."""

    def __init__(self, line: int, text: str) -> None:
        self.begins = self.ends = line
        place = text.index(HEADER)
        self.prefix = text[:place].removeprefix("^C")[-300:] if place <= 300 else ""  # a terminal's echo is on one line only
        self.warning = bool(_WARNING.search(self.prefix))
        self._pattern = _TIMES_OF.join(re.escape(part) for part in re.split(_TIMES_OF, self.prefix))
        self._frames = 0
        self._frame: dict[str, Any] = {}
        self._strange = 0
        self.last = ""  # the last indented line: where the log is cut it may say what was raised
        self.exception = ""
        self.message = ""

    def own(self, text: str) -> str | None:
        """Return the line without the prefix (times in it may differ), None where the line belongs to somebody else."""
        if text.startswith(self.prefix):
            return text[len(self.prefix) :]
        found = re.match(self._pattern, text)
        return text[found.end() :] if found else None

    def feed(self, line: int, text: str) -> str:
        """Take the next line; return `own`, `other` (not of this one), `raised` (complete with it) or `ended` (before it)."""
        rest = self.own(text)
        if line - self.begins > MAX_LINES:
            return "ended"
        if rest is None:
            return "other"
        if not rest.strip():
            return "own"
        if rest[0] in " \t":
            self.last = rest.strip()[:300]
            frame = _FRAME.match(rest.strip())
            if frame:
                self._frames += 1
                self._frame = frame.groupdict()
                self.ends = line
            return "own"
        if HEADER in rest or rest.startswith(_CHAINED):
            return "ended"
        found = _EXCEPTION.match(rest.rstrip())
        if found and self._frames and _RAISED.search(found["name"]):
            self.exception, self.message, self.ends = found["name"], found["message"] or "", line
            return "raised"
        self._strange += 1
        return "ended" if self._strange > MAX_STRANGE else "other"

    def cut(self) -> None:
        """Take the exception from `raise …` where the log ends without the traceback's last line."""
        raised = re.match(r"raise (?P<name>[A-Za-z_][\w.]{0,100})", self.last)
        if raised and not self.exception and raised["name"] != "self":
            self.exception = raised["name"]

    def data(self) -> dict[str, Any]:
        """Return what is known: exception, message, frame (`file:line in function`), first line, warning."""
        data: dict[str, Any] = {"exception": self.exception.rsplit(".", 1)[-1], "begins": self.begins}
        if self.message:
            data["message"] = self.message[:300]
        if self._frame:
            function = f" in {self._frame['function']}" if self._frame["function"] else ""
            data["frame"] = f"{self._frame['file']}:{self._frame['line']}{function}"
        return data | ({"warning": True} if self.warning else {})


def is_header(text: str) -> bool:
    """Return whether a traceback begins here: the header, and nothing behind it but a colon."""
    place = text.find(HEADER)
    return (
        place >= 0 and text[place + len(HEADER) :].strip() in ("", ":") and '"' not in text[:place] and "'" not in text[:place]
    )

"""`trainer_state.json` of the Hugging Face Trainer: one JSON document whose `log_history` is the log, each entry with its line.

The document is taken apart entry by entry, so that a cut file gives what is there. The plan (`max_steps`) often follows
the history, so rows are handed out at the end. A bare list of objects is read in the same way.
"""

import json
import re

import pyarrow as pa

from messages import N_, Text
from storage.reading.containers.hf_dict import kinds_of
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.lines import TEXT_LIMIT, Problem, Problems
from storage.reading.containers.objects import ObjectRows, joined
from storage.types import UnreadableLog

MAX_ENTRY = 1 << 20  # characters of one entry
MAX_OUTSIDE = 16 << 20  # characters before and behind the history
MAX_ROWS = 5_000_000
_TOO_DEEP = N_("The JSON document is nested too deeply to be a training log.")
_TOO_LARGE = N_("The JSON document has a part of more than {size} MB that is no log entry: it is no trainer state.")
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_PLAN_NAMES = (
    "max_steps|num_train_epochs|global_step|logging_steps|eval_steps|save_steps|train_batch_size|best_metric|best_model_checkpoint"
    "|num_input_tokens_seen|total_flos|trial_name"
)
_PLAN = re.compile(rf'"({_PLAN_NAMES})"\s*:\s*(?:"([^"\n]{{0,300}})"|(-?\d[-+.\deE]{{0,40}}))')


class TrainerState:
    """Reads a document as a whole; `config` holds the plan (`max_steps`, `num_train_epochs`, …) once `finish` was called."""

    name = "trainer_state"

    def __init__(self) -> None:
        self.problems = Problems()
        self.config: dict[str, str | float] = {}
        self._objects = ObjectRows()
        self._outside = self._text = ""
        self._inside = False
        self._ended = False
        self._line: int | None = None  # of the first character in _text
        self._rows: list[dict] = []
        self._numbers: list[int] = []
        self._tables: list[pa.Table] = []

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample begins such a document."""
        head = sample[:4].lstrip()[:1]
        text = sample.decode("utf-8", "replace")
        if head == b"{" and _HISTORY.search(text):
            return 1.0
        if head == b"{":
            marks = ("best_model_checkpoint", "is_hyper_param_search", "is_world_process_zero", "global_step", "best_metric")
            return 0.95 if sum(f'"{mark}"' in text for mark in marks) >= 3 else 0.0
        keys = re.findall(r'"(\w+)"\s*:\s*-?\d', text[:5000]) if head == b"[" and re.match(r"\s*\[\s*\{", text) else []
        return 0.8 if any(METRIC.search(key) for key in keys) else 0.0

    def feed(self, text: bytes, first_line: int) -> pa.Table | None:
        """Take whole lines; always None, the rows come from `finish`. Raises UnreadableLog where the document is absurd."""
        self._line = first_line if self._line is None else self._line
        self._text += text.decode("utf-8", "replace")
        self._advance()
        return None

    def finish(self) -> pa.Table | None:
        """Return every row of the history, with `kind` and the planned `total_steps`."""
        self._advance()
        if self._inside and not self._ended:
            ends = Text(N_("the document ends within its history"))
            self.problems.append(Problem(self._line or 1, self._text[:TEXT_LIMIT], ends))
        elif not self._inside:
            self.problems.append(Problem(self._line or 1, self._text[:TEXT_LIMIT], Text(N_("no log_history"))))
        for name, text, number in _PLAN.findall(self._outside + self._text):
            self.config[name] = text or _number(number)
        self._flush()
        if not self._tables:
            return None
        table = joined(self._tables).combine_chunks()
        if "kind" not in table.column_names:
            table = table.append_column("kind", pa.array(kinds_of(table), pa.string()))
        total = self.config.get("max_steps", 0)
        if isinstance(total, str) or total <= 0 or "total_steps" in table.column_names:
            return table
        return table.append_column("total_steps", pa.array([float(total)] * table.num_rows, pa.float64()))

    def state(self) -> None:
        """A document is read whole or not at all: there is nothing to go on from, the file is read again."""
        return None

    def _advance(self) -> None:
        """Take what can be taken from the text at hand: the part before, entries, the part behind."""
        if not self._inside:
            begin = _HISTORY.search(self._text) or re.match(r"\s*\[(?=\s*(?:\{|$))", self._text)
            if begin is None:
                return self._limit(self._text, MAX_OUTSIDE)
            self._outside, self._inside = self._text[: begin.end()], True
            self._drop(begin.end())
        if not self._ended:
            self._entries()
        if self._ended:
            self._text = self._text[:MAX_OUTSIDE]
        return None

    def _entries(self) -> None:
        """Read the entries that are complete; keep the text of the last, incomplete one."""
        decoder, text, place, line = json.JSONDecoder(), self._text, 0, self._line or 1
        while True:
            begin = _BETWEEN.match(text, place).end()  # type: ignore[union-attr]
            line, place = line + text.count("\n", place, begin), begin
            if place == len(text):
                break
            if text[place] == "]":
                self._ended = True
                break
            try:
                entry, end = decoder.raw_decode(text, place)
            except json.JSONDecodeError as error:
                if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                    self._limit(text[place:], MAX_ENTRY)
                    break
                end = _after(text, max(error.pos, place))
                self.problems.append(Problem(line, text[place : place + TEXT_LIMIT], Text(N_("not valid JSON"))))
                entry = None
            except RecursionError:
                raise UnreadableLog("too_deep", Text(_TOO_DEEP)) from None
            if isinstance(entry, dict):
                self._rows.append(entry)
                self._numbers.append(line)
            line, place = line + text.count("\n", place, end), end
            if len(self._rows) >= 20_000:
                self._flush()
        self._text, self._line = text[place:], line

    def _flush(self) -> None:
        if self._rows:
            self._tables.append(self._objects.from_rows(self._rows, self._numbers))
            self.problems += self._objects.problems
            self.problems.more += self._objects.problems.more
            self._objects.problems, self._rows, self._numbers = Problems(), [], []
        if sum(table.num_rows for table in self._tables) > MAX_ROWS:
            raise UnreadableLog("too_large", Text(N_("The JSON document holds more than {rows} records."), {"rows": MAX_ROWS}))

    def _drop(self, count: int) -> None:
        """Forget the first `count` characters of the text and count their lines."""
        self._line = (self._line or 1) + self._text.count("\n", 0, count)
        self._text = self._text[count:]

    def _limit(self, text: str, limit: int) -> None:
        if len(text) > limit:
            raise UnreadableLog("too_large", Text(_TOO_LARGE, {"size": limit >> 20}))


def _after(text: str, place: int) -> int:
    """Return where reading goes on behind damage: after the next closing brace, or at the next line that opens an object."""
    close = text.find("}", place)
    opened = re.compile(r"\n\s*(?=\{)").search(text, place)
    if opened and (close < 0 or opened.start() < close):
        return opened.end()
    return close + 1 if close >= 0 else len(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return int(value) if value.is_integer() else value

"""The dicts that the Hugging Face Trainer prints (`{'loss': 1.53, 'epoch': 0.08}`), with step and clock of its progress bar.

The dict has no step: the bar on the line before does (`  3%|▎  | 1885/67374 [47:13<27:32:59,  1.51s/it]`), or the one behind.
The bar also tells the time since the start and the time left. A step that contradicts the epoch (output of two streams that
were buffered) is left out, not guessed.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading.containers.lines import Lines, Problem, Problems, arrow_texts, has, sample_lines
from storage.reading.containers.objects import ObjectRows
from storage.reading.containers.prefix import PREFIX, stamp

_VALUE = r"'\s*:\s*'?[-+]?(?:\d|\.\d|nan|inf|np\.|tensor|numpy|jnp\.|(?:Device)?Array\()"
_MEASURES = rf"'(?:[\w./-]*loss|rewards?(?:/[^']*)?|(?:eval|test|train)_(?:runtime|[\w/.-]*(?:acc|score|f1|bleu)\w*)){_VALUE}"
_SURELY = rf"'(?:epoch|learning_rate|(?:eval|train)_(?:runtime|loss)){_VALUE}"
_QUOTES = bytes.maketrans(b"'", b'"')
_NONE = np.zeros(0, np.int64)
_BAR = re.compile(
    rb"^" + PREFIX + rb"(?:[\[(][\w =,.-]{1,60}[\])]:?\s*)?\d{1,3}%\|[^|]{0,400}\|\s*(\d{1,12})/(\d{1,12})\s*\["
    rb"(?:([\d:]{4,20})<([\d:?]{1,20}))?"
    rb"|^" + PREFIX + rb"\[\s*(\d{1,12})/(\d{1,12})\s+([\d:]{4,20})\s*<\s*([\d:?]{1,20})"
)
_WRAPPED = re.compile(
    rb"\b(?:[A-Za-z_][\w.]*\.)?(?:float|int|uint|bfloat|tensor|array|Array|DeviceArray)\d*"
    rb"\(\s*([^()\[\],']{1,60}?)\s*(?:,[^()]{0,200})?\)"
)
_BARE_POINT = re.compile(rb"(?<=\d)\.(?=[eE,}\]\s])")  # `Array(1.e-05)`: no number of JSON
_NON_FINITE = re.compile(rb"(?<=[:\[, ])(-?)(nan|inf)(?=\s*[,}\]])")
_WORDS = ((b"None", b"null"), (b"True", b"true"), (b"False", b"false"))
_GLUED = re.compile(rb"\d{1,3}%\|[^|]{0,400}\|\s*(\d{1,12})/(\d{1,12})\s*\[(?:([\d:]{4,20})<([\d:?]{1,20}))?")
MAX_BEFORE = 1 << 14  # bytes of a line before a dict: bars that were drawn one behind the other, what a logger prints
_RANK = re.compile(rb" {0,8}(\d{1,4}): |\[(?:rank|default)(\d{1,5})\]:")  # srun --label, torchrun
_CLOCKS = ("elapsed_seconds", "remaining_seconds")
_OWN_STEP = {"step", "global_step", "current_steps", "global_step/max_steps"}


class Bar(NamedTuple):
    """A progress bar: steps done and planned, seconds since the start and left (None where it does not tell)."""

    step: int
    total: int
    elapsed: float | None = None
    remaining: float | None = None


_Steps = tuple[list[int | None], list[int | None], list[tuple[float | None, float | None]]]


class HfDict:
    """Reads the printed dicts; adds `kind` (train, eval, summary) and, from the bar, step, total_steps and its clock."""

    name = "hf_dict"

    def __init__(self) -> None:
        self.problems = Problems()
        self._objects = ObjectRows("not a dict that can be read")
        self._step: int | None = None
        self._total: int | None = None
        self._pending: Bar | None = None  # the bar behind the last dict of the block before

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample has such dicts; they stand between anything, so a few say much."""
        found = len(_dicts(sample_lines(sample, returns=True)).lines)
        return min(0.98, 0.5 + 0.2 * found) if found else 0.0

    def feed(self, text: bytes, first_line: int, breaks: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows of these whole lines; `first_line` is the number of the first."""
        lines = Lines(text, breaks, returns=True)
        dicts = _dicts(lines)
        self.problems.of(lines, dicts.cut, first_line, Text(N_("the dict is not closed")))
        if not len(dicts.lines):
            self._pending = _bar(lines, range(len(lines) - 1, max(-1, len(lines) - 200), -1)) or self._pending
            return None
        table = self._objects.read(Lines(as_json(_cut_out(lines, dicts))), np.arange(len(dicts.lines)))
        for problem in self._objects.problems:
            piece = dicts.lines[problem.line]
            self.problems.append(Problem(first_line + int(lines.number[piece]), lines.text(piece), problem.reason))
        self.problems.more += [first_line + lines.number[dicts.lines[more]] for more in self._objects.problems.more]
        self._objects.problems = Problems()
        if table is None:
            return None
        heads = _heads(table, lines, dicts)
        return self._placed(heads, lines, dicts.lines, first_line)

    def finish(self) -> pa.Table | None:
        """Nothing is held back."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"step": self._step, "total": self._total, "pending": self._pending, "objects": self._objects.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._step, self._total = state["step"], state["total"]
        self._pending = Bar(*state["pending"]) if state["pending"] else None
        self._objects.restore(state["objects"])

    def _placed(self, table: pa.Table, lines: Lines, wanted: np.ndarray, first_line: int) -> pa.Table:
        """Return the table with line numbers, kinds and steps."""
        row = table["line"].to_numpy()
        kinds = kinds_of(table)
        table = table.set_column(0, "line", pa.array(first_line + lines.number[wanted[row]], pa.int64()))
        if "kind" not in table.column_names:
            table = table.append_column("kind", pa.array(kinds, pa.string()))
        if _OWN_STEP & set(table.column_names) or not (self._pending or b"%|" in lines.block or b" < " in lines.block):
            return table
        steps, totals, clocks = self._steps(lines, wanted[row], kinds)
        epochs = table["epoch"].to_pylist() if "epoch" in table.column_names else [None] * len(steps)
        sound = [step if ok else None for step, ok in zip(steps, _agree(steps, epochs, kinds), strict=True)]
        table = table.append_column("step", pa.array(sound, pa.float64()))
        if "total_steps" not in table.column_names:
            table = table.append_column("total_steps", pa.array(totals, pa.float64()))
        for name, values in zip(_CLOCKS, zip(*clocks, strict=True), strict=True):
            times = pa.array([v if step is not None else None for v, step in zip(values, sound, strict=True)], pa.float64())
            if name not in table.column_names and times.null_count < len(times):
                table = table.append_column(name, times)
        return table

    def _steps(self, lines: Lines, places: np.ndarray, kinds: list[str]) -> _Steps:
        """Return step, total and clock for each dict: of the nearest bar since the dict before, else of one right behind it."""
        steps: list[int | None] = []
        totals: list[int | None] = []
        clocks: list[tuple[float | None, float | None]] = []
        since = -1
        for place, kind in zip(places.tolist(), kinds, strict=True):
            bar = _bar(lines, range(place, since, -1)) or self._pending
            self._pending = None
            if kind == "train":
                bar = bar or (_bar(lines, range(place + 1, min(place + 4, len(lines)))) if not steps else None)
                steps.append(bar.step if bar else None)
                clocks.append((bar.elapsed, bar.remaining) if bar else (None, None))
                self._step, self._total = (bar.step, bar.total) if bar else (self._step, self._total)
            else:  # its nearest bar counts evaluation batches: only a bar of the training's own total says a step
                if bar and bar.total == self._total:
                    self._step = bar.step
                steps.append(self._step)
                clocks.append((None, None))
            totals.append(self._total)
            since = place
        self._pending = _bar(lines, range(len(lines) - 1, max(since, len(lines) - 200), -1))
        return steps, totals, clocks


class _Dicts(NamedTuple):
    """Where the metric dicts are: line index, first and last byte offset; and the lines where one is not closed."""

    lines: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    cut: np.ndarray


def _dicts(lines: Lines) -> _Dicts:
    braces = np.flatnonzero((lines.bytes[:-1] == ord("{")) & (lines.bytes[1:] == ord("'"))) if b"{'" in lines.block else _NONE
    if not len(braces):
        return _Dicts(_NONE, _NONE, _NONE, _NONE)
    index, first = np.unique(np.searchsorted(lines.ends, braces, side="right"), return_index=True)
    begins, ends = braces[first], lines.ends[index]
    direct, closed = begins == lines.starts[index], lines.bytes[ends - 1] == ord("}")
    ends = np.where(closed, ends, begins)
    for place in np.flatnonzero(~closed & direct):  # the bar may follow on the same line
        whole = re.match(rb"\{'[^{}]{1,20000}\}(?=\s)", lines.block[begins[place] : lines.ends[index[place]]])
        ends[place] += whole.end() if whole else 0
    sound = _matches(lines, index, _MEASURES)
    if not direct.all():
        sound &= direct | (_matches(lines, index, _SURELY) & (begins - lines.starts[index] < MAX_BEFORE))
    good = sound & (ends > begins)
    goes_on = lines.bytes[lines.ends[index] - 1] == ord(",")  # over several lines: json_blocks reads it
    return _Dicts(index[good], begins[good], ends[good], index[sound & direct & (ends == begins) & ~goes_on])


def _heads(table: pa.Table, lines: Lines, dicts: _Dicts) -> pa.Table:
    """Return the table with the wall clock and the rank that machines put in front of the dicts."""
    row = table["line"].to_numpy()
    starts, begins = lines.starts[dicts.lines][row], dicts.begins[row]
    if (starts == begins).all():
        return table
    heads = [bytes(lines.block[start:begin]) for start, begin in zip(starts.tolist(), begins.tolist(), strict=True)]
    ranks = [float(found[1] or found[2]) if (found := _RANK.match(head)) else None for head in heads]
    for name, values in (
        ("timestamp", pa.array([stamp(head) for head in heads], pa.string())),
        ("rank", pa.array(ranks, pa.float64())),
    ):
        if name not in table.column_names and values.null_count < len(values):
            table = table.append_column(name, values)
    return table


def _matches(lines: Lines, wanted: np.ndarray, pattern: str) -> np.ndarray:
    """Return whether the pattern is found in each wanted line."""
    return pc.match_substring_regex(arrow_texts(lines, wanted), pattern).to_numpy().astype(bool)


def _cut_out(lines: Lines, dicts: _Dicts) -> bytes:
    """Return the dicts alone, one a line."""
    if (dicts.begins == lines.starts[dicts.lines]).all() and (dicts.ends == lines.ends[dicts.lines]).all():
        return lines.take(dicts.lines)
    spans = zip(dicts.begins.tolist(), dicts.ends.tolist(), strict=True)
    return b"\n".join(lines.block[begin:end] for begin, end in spans) + b"\n"


def as_json(data: bytes) -> bytes:
    """Return Python dicts, one a line, as JSON: quotes, nan, None, `np.float64(…)` and `tensor(…)`."""
    if b"(" in data:
        data = _BARE_POINT.sub(b".0", _WRAPPED.sub(rb"\1", data))
    data = data.translate(_QUOTES)
    if has(data, b"nan") or has(data, b"inf"):
        data = _NON_FINITE.sub(lambda m: b"NaN" if m[2] == b"nan" else m[1] + b"Infinity", data)
    for word, json_word in _WORDS:
        if word[:1] in data and word in data:
            data = re.sub(rb"\b%b\b" % word, json_word, data)
    return data


def _bar(lines: Lines, order: range) -> Bar | None:
    """Return the first progress bar among these lines; a bar with a label (`Map: 3%|`) is another one.

    Of bars that were drawn one behind the other on a line, the last before its dict.
    """
    for index in order:
        start = int(lines.starts[index])
        found = _BAR.match(lines.block[start : min(int(lines.ends[index]), start + 600)])
        if found and found[1]:
            before = lines.block[start + found.start(1) : min(int(lines.ends[index]), start + MAX_BEFORE)].partition(b"{'")[0]
            return _read_bar(([found.groups()[:4]] + [more.groups() for more in _GLUED.finditer(before)])[-1])
        if found:
            return _read_bar(found.groups()[4:])
    return None


def _read_bar(parts: Sequence[bytes]) -> Bar:
    step, total, elapsed, remaining = parts
    return Bar(int(step), int(total), _clock(elapsed), _clock(remaining))


def _clock(text: bytes | None) -> float | None:
    """Return the seconds of `47:13` or `27:32:59`, None for `?` and anything else."""
    parts = text.split(b":") if text else []
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):
        return None
    return sum(float(part) * unit for part, unit in zip(reversed(parts), (1, 60, 3600), strict=False))


def kinds_of(table: pa.Table) -> list[str]:
    """Return train, eval or summary for each row by the names it has values for."""

    def some(names: list[str]) -> np.ndarray:
        given = [table[name].is_valid().to_numpy() for name in names]
        return np.logical_or.reduce(given) if given else np.zeros(table.num_rows, bool)

    names = table.column_names
    summary = some([name for name in names if name in ("train_runtime", "train_samples_per_second")])
    evaluation = some([name for name in names if name.startswith(("eval_", "test_"))]) & ~some(
        [n for n in names if n == "loss"]
    )
    return np.where(summary, "summary", np.where(evaluation, "eval", "train")).tolist()


def _agree(steps: list[int | None], epochs: list[float | None], kinds: list[str]) -> np.ndarray:
    """Return which steps fit the epochs beside them: both grow in one proportion, up to the rounding of the printed epoch.

    None fits where most records had no bar of their own: then bars and dicts reached the file at different times.
    """
    train = [step for step, kind in zip(steps, kinds, strict=True) if kind == "train"]
    if len(train) > 3 and 2 * sum(step is None for step in train) > len(train):
        return np.zeros(len(steps), bool)
    step = np.array([np.nan if s is None else s for s in steps], float)
    epoch = np.array([np.nan if e is None else e for e in epochs], float)
    sound = np.ones(len(steps), bool)
    known = np.flatnonzero((step > 0) & (epoch > 0))
    if len(known) >= 7:  # a window of 7: launches with other proportions may follow each other
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(step[known] / epoch[known], 3, mode="reflect"), 7)
        per_epoch = np.median(windows, axis=1)
        sound[known] = np.abs(step[known] - epoch[known] * per_epoch) <= 0.012 * per_epoch + 1
    return sound

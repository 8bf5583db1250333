"""Log formats: one TOML file each in formats/, found by walking the folder, and those that a team saved for itself.

    title = "MiniMind"                      # what a person reads
    seen = ["MiniMind pre-training"]        # where such lines come from
    general = true                          # many programs write such logs: it does not tell which one did
    kind = "lines"                          # or the name of a container: jsonl, csv, hf_dict, trainer_state; or pairs

    [[line]]                                # one kind of line
    kind = "train"                          # train | eval | telemetry | summary; more: adds to the record before it; ignore
    pattern = '^Epoch:\\[{epoch}/{epochs}\\]'   # RE2; {name} is a number under that name, (?P<name>…) works too
    pairs = true                            # the rest of the line is read as name: number
    looks = '^Epoch:'                       # lines like this that do not fit are reported as unparsed
    per_epoch = true                        # the step starts again in each epoch
    complete = true                         # a line with fewer fields than the others was cut
    weak = true                             # such lines are records only where the log has no others
    names = { "Avg" = "loss_avg" }          # printed name -> column; "" = leave it out
    units = { "time" = "ms" }               # unit of a name that prints none

    [[sample]]                              # proof: a text and the rows it must give
    text = "…"
    rows = [{ kind = "train", step_printed = 1, loss = 2.5 }]

    [[reject]]                              # a text that must give no row at all
    text = "…"

Patterns run in RE2: linear in the length of the line, whatever the pattern.

The formats of a team (`use`) come first; a file that can't be used is left out, for no log may become unreadable by it.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import shapes
from storage.reading.decode import content
from storage.reading.fields import Form

FOLDER = Path(__file__).parents[2] / "formats"
NUMBER = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
VALUE = rf"(?:{NUMBER}|[+-]?(?i:nan|inf|infinity))"
HINTS = (
    r"(?i)(?:loss|ppl|perplexity|\bacc|accuracy|reward|miou|bleu|\bf[0-9]\b|\bwer\b|\blr\b|learning.?rate|grad|xent|nll|entropy|\bkl|"
    r"throughput|tok(?:ens)?/s|samples?/s|mfu|tflop|verlust|lernrate|损失|学习率|梯度|困惑度|准确率|奖励|吞吐)"
)
SHORT = 1 << 15  # bytes of a text that is searched before patterns are made ready for it
_MACRO = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_TELLS_NOT = re.compile(r"\(\?[a-zA-Z]*i|\\[xpPQ0-9]|\[:")  # either case, characters by number or class
_GROUP = re.compile(r"\(\?P<[^>]*>")


@dataclass(frozen=True)
class LogFormat:
    """A format as its file declares it; `kind` is `lines`, `pairs` or the name of a container."""

    name: str
    title: str
    seen: tuple[str, ...]
    kind: str
    forms: tuple[Form, ...]
    samples: tuple[Mapping[str, Any], ...]
    rejects: tuple[Mapping[str, Any], ...]
    source: str = ""
    general: bool = False


class BadFormat(ValueError):
    """A format file that can not be used: says which file and why."""


_team_folder: Path | None = None
_trial: ContextVar[LogFormat | None] = ContextVar("trial", default=None)


def use(folder: Path | None) -> None:
    """Read also the formats that a team keeps in `folder`, from now on and as they are now."""
    global _team_folder
    _team_folder = folder
    for kept in (team, _every, _forms, _prefilter, _every_part):
        kept.cache_clear()


@contextmanager
def trying(found: LogFormat) -> Iterator[None]:
    """Within the block, and in this thread alone, there is one format more, before all others."""
    token = _trial.set(found)
    try:
        yield
    finally:
        _trial.reset(token)


def load() -> dict[str, LogFormat]:
    """Return every format by name (the file's stem): the team's own, then those that come with the product."""
    trial = _trial.get()
    return _every() if trial is None else {trial.name: trial} | {n: f for n, f in _every().items() if n != trial.name}


@cache
def _every() -> dict[str, LogFormat]:
    return {name: found for name, found in team().items() if isinstance(found, LogFormat)} | shipped()


@cache
def shipped() -> dict[str, LogFormat]:
    """Return the formats that come with the product."""
    return {name: _shipped(name) for name in _names()}


@cache
def _names() -> tuple[str, ...]:
    return tuple(path.stem for path in sorted(FOLDER.glob("*.toml")))


@cache
def _shipped(name: str) -> LogFormat:
    # What comes with the product is tried by its tests: to compile each pattern takes longer than to read the first lines.
    return parse(name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8"), tried=True)


@cache
def team() -> dict[str, "LogFormat | BadFormat"]:
    """Return the team's own formats; for a file that can't be used, why."""
    return {path.stem: _own(path) for path in sorted(_team_folder.glob("*.toml"))} if _team_folder else {}


def _own(path: Path) -> "LogFormat | BadFormat":
    try:
        if path.stem in shipped():
            raise BadFormat(f"{path.name}: this name belongs to a format that comes with Runvitals")
        return parse(path.stem, path.read_text(encoding="utf-8"))
    except BadFormat as error:
        return error
    except (OSError, UnicodeDecodeError) as error:
        return BadFormat(f"{path.name}: {error}")


def parse(name: str, text: str, *, tried: bool = False) -> LogFormat:
    """Return the format that a TOML text declares; raises BadFormat. `tried`: its patterns are known to be good."""
    try:
        data = tomllib.loads(text)
        lines = data.get("line", ())
        many = any(line.get("kind") == "more" for line in lines)
        forms = tuple(_form(name, line, many) for line in lines)
        for form in () if tried else forms:
            _try(form)
        samples, rejects = tuple(data.get("sample", ())), tuple(data.get("reject", ()))
        seen, kind = tuple(map(str, data.get("seen", ()))), data.get("kind", "lines")
        return LogFormat(name, str(data["title"]), seen, kind, forms, samples, rejects, text, bool(data.get("general", False)))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, pa.ArrowInvalid) as error:
        raise BadFormat(f"formats/{name}.toml: {error}") from error


def _form(name: str, line: Mapping[str, Any], many: bool) -> Form:
    pattern = _MACRO.sub(lambda macro: f"(?P<{macro.group(1)}>{VALUE})", line["pattern"])
    return Form(
        format=name,
        kind=line.get("kind", "train"),
        pattern=pattern,
        looks=line.get("looks"),
        pairs=line.get("pairs", True),
        per_epoch=line.get("per_epoch", False),
        complete=line.get("complete", False),
        weak=line.get("weak", False),
        open=many,
        names=line.get("names", {}),
        units=line.get("units", {}),
    )


def _try(form: Form) -> None:
    """Raise ArrowInvalid where RE2 does not take a pattern."""
    empty = pa.array([""])
    (pc.extract_regex if "(?P<" in form.pattern else pc.match_substring_regex)(empty, form.pattern)
    pc.match_substring_regex(empty, form.looks or "")


def kind_of(name: str) -> str:
    """Return how a format is read: `text`, or the name of a container; raises BadFormat for an unknown name."""
    if name not in load():
        raise BadFormat(f"No format is called {name!r}; there are: {', '.join(load())}")
    kind = load()[name].kind
    return "text" if kind in ("lines", "pairs") else kind


def program_of(name: str | None) -> str:
    """Return what wrote a log of this format, "" where many programs write such logs."""
    if name is None:
        return ""
    # Of those that come with the product this one alone is read: all of them take a third of a comparison of twenty runs.
    found = _shipped(name) if name in _names() and _trial.get() is None else load().get(name)
    return "" if found is None or found.general else found.title


def forms(only: str | None = None) -> tuple[Form, ...]:
    """Return every declared line of every format, or of one."""
    return _forms(only) if _trial.get() is None else _lines(load(), only)


@cache
def _forms(only: str | None) -> tuple[Form, ...]:
    return _lines(_every(), only)


def _lines(found: Mapping[str, LogFormat], only: str | None) -> tuple[Form, ...]:
    return tuple(form for one in found.values() if only in (None, one.name) for form in one.forms)


def candidates(lines: pa.Array, only: str | None = None) -> np.ndarray:
    """Return which lines may be records: they name what is measured, or a format knows them."""
    trial = _trial.get() is not None
    if not trial and len(lines) >= shapes.FEW:
        return shapes.match(lines, _every_part(only))
    text, parts = content(lines), _parts(forms(only)) if trial else _prefilter(only)
    pattern = "|".join([HINTS, *(part for part, needed in parts if holds(text, needed))])
    return pc.match_substring_regex(lines, pattern).to_numpy(zero_copy_only=False)


@cache
def _every_part(only: str | None) -> str:
    return "|".join([HINTS, *(part for part, _ in _prefilter(only))])


@cache
def _prefilter(only: str | None) -> tuple[tuple[str, bytes], ...]:
    return _parts(_forms(only))


def _parts(found: tuple[Form, ...]) -> tuple[tuple[str, bytes], ...]:
    # The pattern is compiled for every block of text, so it is short: a number may be any run of its characters, and
    # what always holds one of the hints needs no pattern of its own.
    every = ((p, _GROUP.sub("(?:", p.replace(VALUE, "[-+.,0-9a-zA-Z]+"))) for f in found for p in (f.pattern, f.looks) if p)
    return tuple((f"(?:{part})", mark(pattern)) for pattern, part in every if not _hinted(part))


def _hinted(pattern: str) -> bool:
    """Say whether the plain text of a pattern, outside of groups and of what may be missing, holds a hint."""
    text, before = re.sub(r"\[.*?\]", " ", pattern.replace("\\[", " ").replace("\\(", " ")), ""
    while text != before:
        text, before = re.sub(r"\([^()]*\)[?*+]?", " ", text), text
    return "|" not in text.replace("\\|", "") and re.search(HINTS, re.sub(r".[?*]", " ", text)) is not None


def match(lines: pa.Array, only: str | None = None) -> list[tuple[Form, bool] | None]:
    """Return for each line the declared form that fits it (form, True), or looks like it (form, False), else None."""
    result: list[tuple[Form, bool] | None] = [None] * len(lines)
    text = content(lines)
    for fits in (True, False):
        for form in forms(only):
            pattern = form.pattern if fits else form.looks
            if pattern and holds(text, mark(pattern)):
                for index in pc.indices_nonzero(pc.match_substring_regex(lines, pattern)).to_pylist():
                    result[index] = result[index] or (form, fits)
    return result


def holds(text: bytes, needed: bytes) -> bool:
    """Say whether a text may hold what a pattern needs: of a short text it is looked up, which is a thousandth of the work of
    making the pattern ready; of a long one, that work is less than the search."""
    return len(text) > SHORT or needed in text


@cache
def mark(pattern: str) -> bytes:
    """Return the longest text that every line holds which a pattern fits; empty where the pattern does not tell."""
    if _TELLS_NOT.search(pattern.replace("(?i:nan|inf|infinity)", "")):
        return b""
    plain, before = re.sub(r"\[\^?\]?[^\]]*\]", "\1", re.sub(r"\\[^\w\s]", _escaped, pattern)), ""
    while plain != before:
        plain, before = re.sub(r"\([^()]*\)[?*+]?(?:\{[^}]*\})?", "\1", plain), plain
    if "|" in plain or re.search(r"[()]", plain):
        return b""
    plain = re.sub(r"\\[A-Za-z]|[\^$.]", "\1", plain)
    pieces = re.split("\1+", re.sub(r".(?:[?*]|\{[^}]*\})|(?<=.)\+", "\1", plain))
    return "".join(map(_unescaped, max(pieces, key=len))).encode()


# Escaped punctuation stands for itself: it is moved out of the way while the structure of a pattern is looked at.
_MOVED = 0xE000


def _escaped(found: re.Match[str]) -> str:
    return chr(_MOVED + ord(found.group()[1]))


def _unescaped(character: str) -> str:
    return chr(ord(character) - _MOVED) if _MOVED <= ord(character) < _MOVED + 0x1000 else character


def spans(line: str, form: Form) -> dict[str, tuple[int, int]]:
    """Return the character ranges of the named groups of a form in a line that fits it."""
    if not re.search(r"\(\?P<", form.pattern):
        return {}
    raw = line.encode()
    found = pc.extract_regex_span(pa.array([line]), form.pattern)[0].as_py() or {}
    ranges = {name: (span[0], span[0] + span[1]) for name, span in found.items() if span and span[1] > 0}
    return {name: (len(raw[:start].decode()), len(raw[:end].decode())) for name, (start, end) in ranges.items()}

"""What the path of a watched file says: whether it is a log, of which run, of which rank and node, and of which age.

A rule says how paths become runs:

    (empty)   a file is a run; files of ranks or nodes (`rank_3.log`, `workerlog.3`, `node07.out`, `rank_3/train.log`) that
              lie together are lanes of one run
    files     every file is a run, whatever its name
    lanes     all files of a folder are lanes of one run, named by their nodes
    else      a regular expression (RE2, so that none can hang) over the path below the folder, with named groups `run`,
              `rank` and `host` (each may be missing): files of the same `run` are its lanes. What it does not match is
              not a log.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import lru_cache
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.keeping.sources import Watched

INCLUDE = (
    *("*.log", "*.txt", "*.out", "*.err", "*.jsonl", "*.ndjson", "*.csv", "*.tsv", "*trainer_state.json"),
    *("workerlog.*", "*rank[-_.]*", "*rank[0-9]*", "nohup*", "slurm-*", "stdout*", "stderr*", "log"),
)
# Text that lies beside logs; hidden files; copies that editors make.
EXCLUDE = (
    *(".*", "__pycache__", "node_modules", "*~", "*.tmp", "*.swp", "#*"),
    *("requirements*.txt", "README*", "LICENSE*", "vocab.txt", "merges.txt", "special_tokens*", "CMakeLists.txt"),
)
FILES, LANES = "files", "lanes"

_PACKED = r"\.(?:gz|zst)"
_ENDING = r"\.(?:log|txt|out|err|jsonl|ndjson|csv|tsv)"
_NUMBER = r"[.-](?:\d{1,3}|\d{4}-?\d{2}-?\d{2}[\d:._T-]*)"
# train.log.1, train.log.2.gz, train.log-20240501, train.log.gz: older pieces of train.log. A base without a usual ending
# may have packed pieces only: `workerlog.1` is a rank.
_ROTATED = re.compile(rf"(?P<base>.+{_ENDING})(?:{_NUMBER})?(?:{_PACKED})?|(?P<packed>.+){_PACKED}")
_RANK = r"(?:global|local)?[-_]?rank[-_.]?(?P<rank>\d{1,6})"
_RANK_FILE = re.compile(
    rf"(?:(?P<stem>.*?)[-_.])??{_RANK}(?!\d)(?P<rest>.*)|(?P<worker>workerlog)\.(?P<number>\d{{1,6}})", re.I
)
_HOST = r"(?P<host>(?:node|host|worker|trainer)[-_]?\d{1,6})"
_HOST_FILE = re.compile(rf"{_HOST}(?P<rest>[-_.].*)?", re.I)
_RANK_FOLDER = re.compile(_RANK, re.I)
_HOST_FOLDER = re.compile(_HOST, re.I)
# torchrun --log-dir: RUN/attempt_0/3/stdout.log
_ATTEMPT, _DIGITS = re.compile(r"attempt_\d+"), re.compile(r"\d{1,6}")
_PLAIN_STEMS = {"", "log", "logs", "train", "training", "output", "out", "std", "worker", "workerlog", "run", "debug"}


@dataclass(frozen=True)
class Place:
    """base: path of the log that this file is, or is an older piece of. claim: what its run is named by: `base`, or what
    the lanes of a run have in common. name: how people call the run. lane: whether it may have others beside it."""

    base: str
    claim: str
    name: str
    rank: int | None = None
    host: str | None = None
    lane: bool = False


class RuleError(ValueError):
    """A rule or a glob can't be used; `message` says why."""

    def __init__(self, message: Text) -> None:
        super().__init__(message.render())
        self.message = message


class Places:
    """Tells for the paths of one watched folder what they are."""

    def __init__(self, watched: Watched) -> None:
        """Raises RuleError."""
        self.folder = watched.folder
        self._include = _globs(watched.include or INCLUDE)
        self._exclude = _globs(watched.exclude or EXCLUDE)
        self._rule = watched.rule
        self._pattern = None if watched.rule in ("", FILES, LANES) else _compile(watched.rule)

    def excluded(self, path: str) -> bool:
        """Say whether a file or folder is left out by the globs."""
        below = path[len(self.folder) :].strip("/")
        return bool(self._exclude(below) or self._exclude(below.rpartition("/")[2]))

    def of(self, path: str) -> Place | None:
        """Return what a file is, None if it is no log."""
        if self.excluded(path):
            return None
        base = unrotated(path)
        below = base[len(self.folder) :].strip("/")
        if not (self._include(below) or self._include(below.rpartition("/")[2])):
            return None
        if self._pattern is not None:
            return self._by_pattern(base, below)
        alone = Place(base, base, below)
        if self._rule == FILES:
            return alone
        if self._rule == LANES:
            return self._lane(alone, PurePosixPath(below).parent.as_posix(), None, PurePosixPath(below).stem)
        return self._usual(alone, below)

    def _by_pattern(self, base: str, below: str) -> Place | None:
        parts = self._pattern.search(below) if self._pattern else None
        if parts is None:
            return None
        if not parts:
            return Place(base, base, below)
        rank, host, run = parts.get("rank"), parts.get("host") or None, parts.get("run")
        number = int(rank) if rank and rank.isascii() and rank.isdigit() else None
        return self._lane(Place(base, base, below), run or ".", number, host)

    def _usual(self, alone: Place, below: str) -> Place:
        """Return the place by the names of ranks and nodes that launchers use."""
        *folders, name = below.split("/")
        rank, host, kept = None, None, []
        for before, folder in zip(["", *folders], folders, strict=False):
            if found := _RANK_FOLDER.fullmatch(folder):
                rank = int(found["rank"])
            elif _ATTEMPT.fullmatch(before) and _DIGITS.fullmatch(folder):
                rank = int(folder)
            elif found := _HOST_FOLDER.fullmatch(folder):
                host = found["host"]
            else:
                kept.append(folder)
        in_folders = rank is not None or host is not None
        if found := _RANK_FILE.fullmatch(name):
            rank = int(found["rank"] or found["number"])
            stem = (found["worker"] or found["stem"] or "").strip("-_.")
            if found := _HOST_FILE.fullmatch(stem):
                host, stem = found["host"], (found["rest"] or "").strip("-_.")
            kept += [] if stem.lower() in _PLAIN_STEMS else [stem]
        elif found := _HOST_FILE.fullmatch(name):
            host = found["host"]
        elif in_folders:
            kept.append(name)
        else:
            return alone
        return self._lane(alone, "/".join(kept), rank, host)

    def _lane(self, alone: Place, run: str, rank: int | None, host: str | None) -> Place:
        run = run.strip("/") if run not in ("", ".") else ""
        claim = f"{self.folder}/{run}" if run else self.folder
        name = run or PurePosixPath(self.folder).name
        return replace(alone, claim=claim, name=name, rank=rank, host=host, lane=True)


@lru_cache(maxsize=1 << 16)
def unrotated(path: str) -> str:
    """Return the path of the log that a file is an older piece of (`train.log.2.gz` of `train.log`), else its own."""
    folder, slash, name = path.rpartition("/")
    found = _ROTATED.fullmatch(name)
    return folder + slash + (found["base"] or found["packed"]) if found else path


def age_order(path: str, changed: int) -> tuple[bool, int, int]:
    """Return a key that sorts the pieces of a log from the oldest to the log itself."""
    base = unrotated(path)
    number = re.match(r"[.-](\d{1,3})(?:\.|$)", path[len(base) :])
    return path == base, changed, -int(number[1]) if number else 0


def _globs(patterns: Iterable[str]):  # type: ignore[no-untyped-def]
    try:
        return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns)).match
    except re.error as error:
        raise RuleError(Text(N_("A pattern for file names can't be used: {error}"), {"error": str(error)})) from error


class _Pattern:
    """A pattern of RE2: linear in the length of a path, whatever the pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises pa.ArrowInvalid."""
        self._pattern = pattern
        pc.match_substring_regex(pa.array([""]), pattern)
        self._named = "(?P<" in pattern
        self.names = [field.name for field in pc.extract_regex(pa.array([""]), pattern).type] if self._named else []

    def search(self, text: str) -> dict[str, str] | None:
        """Return the named groups where the pattern is found (empty ones took no part), None where it is not."""
        one = pa.array([text])
        if self._named:
            found: dict[str, str] | None = pc.extract_regex(one, self._pattern)[0].as_py()
            return found
        return {} if pc.match_substring_regex(one, self._pattern)[0].as_py() else None


def _compile(rule: str) -> _Pattern:
    try:
        pattern = _Pattern(rule)
    except pa.ArrowInvalid as error:
        gaps = {"error": str(error).removeprefix("Invalid regular expression: ")}
        raise RuleError(Text(N_("The rule is no regular expression: {error}"), gaps)) from error
    unknown = set(pattern.names) - {"run", "rank", "host"}
    if unknown:
        message = N_("The rule has the group {name}. It can have the groups run, rank and host.")
        raise RuleError(Text(message, {"name": sorted(unknown)[0]}))
    return pattern

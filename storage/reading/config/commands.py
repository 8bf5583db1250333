"""Command lines: `torchrun --nproc_per_node 8 train.py --lr 5e-4 --batch_size=32 model.dim=512 --bf16`."""

import re
import shlex
from collections.abc import Iterator

from storage.reading.config.values import Value, literal, value_of

MAX_WORDS = 5000
_NAMES = r"python[\d.]*|torchrun|deepspeed|accelerate|srun|mpirun|mpiexec|llamafactory-cli|swift|axolotl|composer|tune|litgpt"
_WORDS = (
    "python",
    "torchrun",
    "deepspeed",
    "accelerate",
    "srun",
    "mpi",
    "-cli",
    "swift",
    "axolotl",
    "composer",
    "tune",
    "litgpt",
)
_PROGRAM = re.compile(rf"^(?:\S*/)?(?:{_NAMES}|nohup|bash|sh)$")
_SCRIPT = re.compile(r"^[\w./~-]{1,300}\.(?:py|sh)$")
_OPTION = re.compile(r"^--?([A-Za-z][\w.-]{0,119})(?:=(.*))?$", re.S)
_OVERRIDE = re.compile(r"^\+{0,2}([A-Za-z_][\w./-]{0,119})=(.*)$", re.S)
_DOTTED_OVERRIDE = re.compile(r"^\+{0,2}[a-z_]\w*(?:\.\w+)+=")
_LIST = re.compile(r"(?:command|cmd|argv|args)\b[^\[\]]{0,20}(\[\s*['\"].*['\"]\s*\])\s*$", re.I)
_NAMED = re.compile(rf"(?:^|[\s:=>$+'\"\[])(?:[^\s'\"\[]{{0,200}}/)?(?:{_NAMES})['\",]*\s+")
_ARGUMENTS = re.compile(r"(?:^|[\s'\"])(?:--?[A-Za-z]|[\w./~-]{1,300}\.py\b)")
_BARE_SCRIPT = re.compile(r"^\s*(?:\d{1,3}\.\s+)?[\w./~-]{1,300}\.py\s+--?[A-Za-z]")


def may_start(text: str) -> bool:
    """Return whether a command may begin on this line."""
    if not (".py" in text or any(name in text for name in _WORDS)):
        return False
    found = _NAMED.search(text)
    return bool(_ARGUMENTS.search(text, found.end() - 1) if found else _BARE_SCRIPT.match(text))


def words_of(text: str) -> list[str]:
    """Return the words of a command line; one that cannot be read as a shell would is cut at blanks."""
    found = _LIST.search(text)
    listed = literal(found[1]) if found else None
    if isinstance(listed, list):
        return [str(word) for word in listed][:MAX_WORDS]
    try:
        return shlex.split(text)[:MAX_WORDS]
    except ValueError:
        return text.split()[:MAX_WORDS]


def settings(words: list[str]) -> Iterator[tuple[str, Value]]:
    """Yield the settings of a command, from its program on: options, `key=value` behind the script, flags as True."""
    programs = (place for place, word in enumerate(words) if _PROGRAM.match(word.strip("'\"$>")) or _SCRIPT.match(word))
    start = next(programs, None)
    if start is None:
        return
    for word in reversed(words[:start]):  # CUDA_VISIBLE_DEVICES=0,1 python …
        found = _OVERRIDE.match(word)
        if not found or not found[1].isupper():
            break
        yield found[1], value_of(found[2])
    script = max((place for place, word in enumerate(words) if place >= start and _SCRIPT.match(word)), default=start)
    if _SCRIPT.match(words[script]):
        yield "script", words[script]
    place = start + 1
    while place < len(words):
        option, override = _OPTION.match(words[place]), _OVERRIDE.match(words[place])
        if option and words[place] not in ("-m", "-u", "-c"):
            value: Value = True if option[2] is None else value_of(option[2])
            if option[2] is None and _takes(words, place, script):
                place += 1
                value = value_of(words[place])
            yield option[1], value
        elif override and place > script:
            yield override[1], value_of(override[2])
        place += 1


def _takes(words: list[str], place: int, script: int) -> bool:
    """Return whether the option at `place` takes the next word as its value: it is no option, script or override itself."""
    if place + 1 >= len(words) or place + 1 == script:
        return False
    following = words[place + 1]
    negative = re.match(r"^-\.?\d", following)
    return bool(negative) or not (_OPTION.match(following) or (place > script and _DOTTED_OVERRIDE.match(following)))

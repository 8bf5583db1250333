"""What a file is, told from its first lines: a container (JSON lines, a table, a trainer_state.json) or text."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import formats
from storage.reading.containers import Delimited, HfDict, JsonColumns, JsonLines, TrainerState
from storage.reading.decode import Block
from storage.reading.text import TextReader

SURE = 0.5  # a container that is less sure than this is not one
ENOUGH = 3  # lines that a container needs to be told by


def guess(sample: bytes, final: bool) -> str | None:
    """Return the name of a container, or `text`; None = more lines are needed (never if `final`)."""
    if TrainerState.score(sample) >= SURE:
        return TrainerState.name
    if _unfinished_document(sample) and not final:
        return None
    if JsonColumns.score(sample) >= SURE:
        return JsonColumns.name
    if _declared(sample):
        return "text"
    if final or sample.count(b"\n") >= ENOUGH:
        for container in (JsonLines, Delimited):
            if container.score(sample) >= SURE:
                return container.name
    if final or HfDict.score(sample) >= SURE or _gives_rows(sample):
        return "text"
    return None


def _unfinished_document(sample: bytes) -> bool:
    """Say whether a text begins like a JSON document that goes over many lines."""
    first = sample.lstrip().split(b"\n", 1)[0].strip()
    if not (first.startswith(b"{") or first in (b"[", b"[{")):
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return b"'" not in first[:3]
    return False


def _lines(sample: bytes) -> pa.Array:
    return Block(sample, np.zeros(0)).lines()


def _declared(sample: bytes) -> bool:
    """Say whether a format declares one of these lines."""
    lines = _lines(sample)
    marked = (form for form in formats.forms() if formats.holds(sample, formats.mark(form.pattern)))
    return any(pc.match_substring_regex(lines, form.pattern).true_count for form in marked)


def _gives_rows(sample: bytes) -> bool:
    """Say whether these lines would give rows as text."""
    lines = sample.count(b"\n")
    return any(part.num_rows for part in TextReader().feed(Block(sample, np.arange(lines)), _nobody)[0])


def _nobody(rest: Block, places: np.ndarray) -> np.ndarray:
    return np.zeros(len(places), bool)

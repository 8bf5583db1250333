"""What a table holds by the name of its file, where the table itself does not say: `run-foo-tag-train_loss.csv`.

TensorBoard writes run and tag into the name, with `_` for `/`; MLflow calls the file by the metric: `metrics/train/loss`.
"""

import re
from pathlib import PurePosixPath

from storage.reading import columns

_ENDS = re.compile(r"(?:\.(?:csv|tsv|txt|json|log|gz|zst|bz2|xz))+$|[ _]?\(\d+\)(?=\.|$)", re.IGNORECASE)
_TAG = re.compile(r"^(?P<run>.*?)[-_]?\btag-(?P<tag>.+)$")
_EVALUATES = re.compile(r"(?:^|[^a-z])(?:eval|evaluation|val|valid|validation|test|dev)$", re.IGNORECASE)
_OF_RUN = re.compile(
    r"\d|^(?:run|train|training|exp|experiment|log|logs|export)$|^$", re.IGNORECASE
)  # the word before a metric
_PLACES = ("plan", "progress")


def metric_of(file: str) -> str:
    """Return the name of the metric that a file (a name or a path) is called after, an empty text where there is none."""
    path = PurePosixPath(file.replace("\\", "/"))
    if "metrics" in path.parts[:-1] and not _ENDS.search(path.name):
        behind = path.parts[len(path.parts) - path.parts[::-1].index("metrics") :]
        return "/".join(behind)
    stem = path.name
    while (short := _ENDS.sub("", stem)) != stem:
        stem = short
    if found := _TAG.match(stem):
        return _of_tag(found["tag"], bool(_EVALUATES.search(found["run"])))
    return _at_the_end(stem)


def _of_tag(tag: str, evaluates: bool) -> str:
    """Return a tag; one of a run that evaluates (`foo_validation`) as that of an evaluation."""
    meaning = columns.resolve(tag)
    tells = tag.lower().startswith(("train", "eval"))
    return f"eval_{meaning.name}" if evaluates and not tells and not meaning.name.startswith("eval_") else tag


def _at_the_end(stem: str) -> str:
    """Return the longest metric that we know at the end of a name; one word alone only behind what is no part of its name."""
    cuts = [0, *(found.end() for found in re.finditer(r"[-_. ]", stem))]
    for cut in cuts:
        name = stem[cut:]
        if not _is_metric(name):
            continue
        before = re.split(r"[-_. ]", stem[:cut].rstrip("-_. "))[-1]
        if re.search(r"[-_. ]", name) or _OF_RUN.search(before):
            return f"eval_{columns.resolve(name).name}" if _EVALUATES.search(before) else name
    return ""


def _is_metric(name: str) -> bool:
    meaning = columns.resolve(name)
    return columns.is_known(name) and meaning.position is None and meaning.role is not None and meaning.role not in _PLACES

"""What a row of a table is where only its names tell: a summary of the run, an evaluation, one part of a record."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NAMES = ("kind", "type", "mode", "split", "phase", "stage")  # columns that say it themselves
_ONCE = re.compile(r"model_checkpoint$|^model_parameter_info$|^(?:train|val)_dataset$|^env_info$")
_SCORE = re.compile(r"(?:^|[/_ .@-])(?:m?AP|AR|mIoU|acc(?:uracy)?|f1|bleu|rouge|top-?[15])(?:$|[\d/_ .@-])", re.IGNORECASE)
_OTHER_LOSS = re.compile(r"^(?:eval|val|valid|test|dev)|epoch", re.IGNORECASE)
_EVALUATION = re.compile(r"^(?:eval|val|valid|test|dev)(?:[_/ .-]|$)", re.IGNORECASE)


def of_objects(table: pa.Table, summaries: np.ndarray, seen: bool) -> tuple[pa.Table, bool]:
    """Return the table with a kind for rows about the whole run and for scores between records; and if a loss was seen.

    `summaries` marks rows that are known to be summaries; scores are an evaluation only behind the first loss.
    """
    names = table.column_names
    summaries = summaries | _given(table, [name for name in names if _ONCE.search(name)])
    losses = _given(table, [name for name in names if "loss" in name.lower()])
    behind = np.logical_or.accumulate(losses) | seen if len(losses) else losses
    scores = _given(table, [name for name in names if _SCORE.search(name)]) & behind & ~losses
    return _marked(_marked(table, scores & ~summaries, "eval"), summaries, "summary"), bool(seen or losses.any())


def of_cells(table: pa.Table, header: tuple[str, ...]) -> pa.Table:
    """Return a table of sparse rows with a kind for those without the loss that its header promises.

    Lightning's CSV logger spreads a step over rows: the learning rate, the loss, the means of the epoch, the evaluation.
    """
    losses = [name for name in header if "loss" in name.lower() and not _OTHER_LOSS.search(name)]
    if not losses or all(name not in header for name in (f"{loss.removesuffix('_step')}_epoch" for loss in losses)):
        return table
    lacking = ~_given(table, losses)
    means = lacking & _given(table, [name for name in header if name.endswith("_epoch")])
    rest = lacking & ~means & ~_given(table, [name for name in header if _EVALUATION.match(name)])
    means &= ~_given(table, [name for name in header if _EVALUATION.match(name)])
    return _marked(_marked(table, rest, "telemetry"), means, "summary")


def _given(table: pa.Table, names: list[str]) -> np.ndarray:
    """Return which rows have a value in one of these columns."""
    result = np.zeros(table.num_rows, bool)
    for name in set(names) & set(table.column_names):
        result |= table[name].is_valid().to_numpy()
    return result


def _marked(table: pa.Table, rows: np.ndarray, kind: str) -> pa.Table:
    """Return the table with these rows of a kind: in the column that says kinds already, else in a new one."""
    if not rows.any():
        return table
    texts = [name for name in table.column_names if name.lower() in NAMES and pa.types.is_string(table.schema.field(name).type)]
    name = texts[0] if texts else "kind"
    before = table[name].combine_chunks() if texts else pa.nulls(table.num_rows, pa.string())
    values = pc.if_else(pa.array(rows), kind, before)
    return table.set_column(table.column_names.index(name), name, values) if texts else table.append_column(name, values)

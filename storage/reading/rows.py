"""From columns as they were printed to canonical rows: names, units, kinds, global steps, one order of columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import columns, instants
from storage.reading.arrays import edges, repeated, whole
from storage.reading.fields import INSTANT, Plan
from storage.reading.plans import LOSS_ROLES
from storage.reading.segments import OF_EPOCH, OF_RUN, UNKNOWN, Placer, Rows
from storage.reading.template import timestamps
from storage.types import ROW_SCHEMA, Column, Event

# What a part of a batch holds before its rows are placed: `at` orders the rows of a block, the rest as in ROW_SCHEMA.
_PLACES = {"step_printed": pa.float64(), "epoch": pa.float64(), "timestamp": pa.timestamp("ms"), "rank": pa.float64()}
_FIXED = ("at", "line", "kind", "anchor", "per_epoch", "open", *_PLACES)
_KIND_COLUMNS = ("kind", "type", "mode", "split", "phase", "stage")
_KINDS = {
    "train": "train", "training": "train", "eval": "eval", "val": "eval", "valid": "eval", "validation": "eval", "test": "eval",
    "evaluation": "eval", "dev": "eval", "telemetry": "telemetry", "summary": "summary",
}  # fmt: skip
_STEP_ORDER = ("global_step", "global_steps", "step", "steps", "current_steps", "iteration", "iter", "num_updates")
_TELEMETRY = ("hardware",)
MAX_WHOLE = 2**53  # a step from here on is not exact as float64: it is left out, and the report says so
_STAMP = r"^\s*\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d"


def part(
    at: np.ndarray,
    numbers: np.ndarray,
    kind: str | pa.Array,
    found: Mapping[str, pa.Array],
    *,
    plan: Plan | None = None,
    per_epoch: bool = False,
    opens: bool = False,
) -> pa.Table:
    """Return rows of one kind of line: `at` = place in the block, `numbers` = line numbers, `found` = canonical columns.

    `opens` = rows behind a training record may add to it.
    """
    count = len(at)
    if INSTANT in found:
        found = {"timestamp": instants.wall_clock(found[INSTANT])} | {n: values for n, values in found.items() if n != INSTANT}
    kinds = repeated(kind, count) if isinstance(kind, str) else kind
    anchor = _of_kind(kinds, "train")
    if plan is None or plan.format is not None:
        anchor = anchor | _of_kind(kinds, "eval")
    fixed: dict[str, Any] = {"at": at, "line": numbers, "kind": kinds, "anchor": anchor}
    fixed["per_epoch"] = pa.repeat(per_epoch or bool(plan and plan.per_epoch), count)
    fixed["open"] = pa.repeat(opens or bool(plan and plan.open), count)
    for name, kind_of in _PLACES.items():
        fixed[name] = found.get(name, pa.nulls(count, kind_of))
    return pa.table({**fixed, **{name: column for name, column in found.items() if name not in _PLACES}})


def joined(parts: list[pa.Table]) -> pa.Table:
    """Return the rows of the parts of one block in the order of the log."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: part["at"][0].as_py())
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    at, line = table["at"].to_numpy(), table["line"].to_numpy()  # a line that waited to be believed has a late place
    ordered = (line[1:] > line[:-1]) | (line[1:] == line[:-1]) & (at[1:] >= at[:-1])
    return table if ordered.all() else table.take(pa.array(np.lexsort((at, line))))


def flags(table: pa.Table, name: str) -> np.ndarray:
    """Return a column of truths as an array."""
    return _array(table[name])


def is_kind(table: pa.Table, kind: str) -> np.ndarray:
    """Return which rows are of a kind, as an array."""
    return _of_kind(whole(table["kind"]), kind)


def _of_kind(kinds: pa.Array, kind: str) -> np.ndarray:
    """Return which of these are a kind: no other is as long as `train`, and to compare lengths takes a tenth of the time."""
    as_long = np.diff(edges(kinds)) == len(kind)
    return as_long if kind == "train" or not as_long.any() else _array(pc.equal(kinds, kind))


def as_telemetry(table: pa.Table, wanted: np.ndarray) -> pa.Table:
    """Return the table with some rows as telemetry, which says nothing about where the training stands."""
    kinds = pc.if_else(pa.array(wanted), "telemetry", table["kind"])
    table = table.set_column(table.column_names.index("kind"), "kind", kinds)
    anchor = pa.array(flags(table, "anchor") & ~wanted)
    return table.set_column(table.column_names.index("anchor"), "anchor", anchor)


def metrics(table: pa.Table) -> list[str]:
    """Return the names of the metric columns of a table of parts."""
    return [name for name in table.column_names if name not in _FIXED]


def place(table: pa.Table, placer: Placer) -> tuple[pa.Table, list[Event]]:
    """Return the canonical rows of a table of parts, and what the steps tell (launches, resumes)."""
    train = is_kind(table, "train")
    table = _without_own_counters(table, train, placer)
    per_epoch, printed = _numbers(table, "steps_per_epoch"), _numbers(table, "step_printed")
    beyond = np.abs(printed) >= MAX_WHOLE
    if beyond.any():
        placer.beyond = placer.beyond or int(table["line"][int(np.argmax(beyond))].as_py())
        printed = np.where(beyond, np.nan, printed)
    rows = Rows(
        _array(table["line"]), printed, _numbers(table, "epoch"), per_epoch,
        _array(table["anchor"]), _array(table["per_epoch"]), train, _numbers(table, "rank"),
        _numbers(table, columns.PLANNED), _numbers(table, "epochs"),
    )  # fmt: skip
    steps, segments, plans, events = placer.place(rows)
    table = _with_plans(table, plans)
    fixed = {
        "line": table["line"],
        "kind": table["kind"],
        "segment": segments,
        "step": _whole(steps),
        "step_printed": _whole(rows.step),
        "epoch": table["epoch"],
        "timestamp": table["timestamp"],
        "rank": _whole(rows.rank),
    }
    done = [pa.array(column).cast(field.type) if isinstance(column, np.ndarray) else column.cast(field.type)
            for field, column in ((field, fixed[field.name]) for field in ROW_SCHEMA)]  # fmt: skip
    names = metrics(table)
    measured = [table[name].cast(pa.float64()) for name in names]
    schema = pa.schema([*ROW_SCHEMA, *((name, pa.float64()) for name in names)])
    return pa.table([*done, *measured], schema=schema), events


def under(table: pa.Table, above: tuple[np.ndarray, np.ndarray] | None) -> pa.Table:
    """Return the table with the epoch of the heading above each row that prints none; its plan may be that of the epoch."""
    if above is None:
        return table
    epoch, epochs = _numbers(table, "epoch"), _numbers(table, "epochs")
    lacks = np.isnan(epoch) & ~np.isnan(above[0])
    if not lacks.any():
        return table
    total, planned = _numbers(table, "total_steps"), _numbers(table, columns.PLANNED)
    found = {
        "epoch": np.where(lacks, above[0], epoch),
        "epochs": np.where(lacks & np.isnan(epochs), above[1], epochs),
        columns.PLANNED: np.where(lacks & np.isnan(planned), total, planned),
        "total_steps": np.where(lacks, np.nan, total),
    }
    for name, values in found.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, pa.array(values, mask=np.isnan(values)))
        elif not np.isnan(values).all():
            table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return table


def _without_own_counters(table: pa.Table, train: np.ndarray, placer: Placer) -> pa.Table:
    """Return the table without step and plan of evaluations that count their own batches: `Validating 3/10` of a run of 600."""
    if not any(name in table.column_names for name in columns.PLANS):
        return table
    plan = np.fmax.reduce([_numbers(table, name) for name in columns.PLANS])
    of_run = placer.plan_before(np.where(train, plan, np.nan))
    own = ~train & is_kind(table, "eval") & ~_array(table["anchor"]) & (plan != of_run) & ~np.isnan(plan) & ~np.isnan(of_run)
    for name in ("step_printed", *columns.PLANS) if own.any() else ():
        if name in table.column_names:
            values = np.where(own, np.nan, _numbers(table, name))
            table = table.set_column(table.column_names.index(name), name, pa.array(values, mask=np.isnan(values)))
    return table


def _with_plans(table: pa.Table, plans: np.ndarray) -> pa.Table:
    """Return the table with the planned steps of each row under the name of what they are the steps of."""
    if columns.PLANNED not in table.column_names and not ((plans == OF_RUN).any() and "steps_per_epoch" in table.column_names):
        return table
    planned, each, total = (_numbers(table, name) for name in columns.PLANS)
    known = np.where(np.isnan(planned), each, planned)
    found = {
        columns.PLANNED: np.where(plans == UNKNOWN, planned, np.nan),
        "steps_per_epoch": np.where(plans == OF_EPOCH, known, np.where(plans == OF_RUN, np.nan, each)),
        "total_steps": np.where((plans == OF_RUN) & np.isnan(total), known, total),
    }
    table = table.drop_columns([name for name in columns.PLANS if name in table.column_names])
    for name, values in found.items():
        if not np.isnan(values).all():
            table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return table


def _array(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    """Return a column as float64 with NaN for null; a column that is not there is all NaN."""
    if name not in table.column_names or table[name].null_count == table.num_rows:
        return np.full(table.num_rows, np.nan)
    column = table[name].cast(pa.float64())
    return _array(column.fill_null(np.nan) if column.null_count else column)


def _whole(values: np.ndarray) -> pa.Array:
    """Return integers; what is not finite, or too large to be exact, is null."""
    good = np.abs(values) < MAX_WHOLE  # which nan and inf are not
    if good.all():
        return pa.array(values.astype(np.int64))
    if not good.any():
        return pa.nulls(len(values), pa.int64())
    return pa.array(np.where(good, values, 0).astype(np.int64), mask=~good)


def canonical(table: pa.Table, units: Mapping[str, str], described: dict[str, Column]) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return (kinds, canonical columns) of a table under printed names; new metrics are added to `described`."""
    found: dict[str, pa.Array] = {}
    second: list[pa.Array] = []
    later: list[pa.Array] = []  # instants under a name that says less than `timestamp`
    kinds = _kind_columns(table)
    beside = columns.beside(frozenset(table.column_names))
    for name in sorted(table.column_names, key=_precedence):
        column = whole(table[name])
        if name == "line" or name in kinds or column.null_count == len(column):
            continue
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            stamps = _stamps(column)
            if stamps is not None:
                found.setdefault("timestamp", stamps)
        elif (meaning := _total_of(name, table) or beside.get(name) or columns.resolve(name, units.get(name, ""))).position == (
            "timestamp"
        ):
            if units.get(name) == "s":  # `23:59:50`, which says nothing of the day
                _add(found, "time", columns.resolve("time", "s"), column.cast(pa.float64()), described)
                continue
            found.setdefault("timestamp", instants.wall_clock(column.cast(pa.float64())))
        elif stamps := _instants(name, meaning, column.cast(pa.float64()), described):
            later.append(stamps)
        else:
            least = pc.min(pc.drop_null(column.cast(pa.float64()))).as_py()
            if columns.lacks_unit(meaning, name, least):
                meaning = columns.Resolved(columns.sanitise(name))
            if meaning.name == "loss" and described.get("loss", Column("loss", name)).printed != name:
                second.append(column)
            _add(found, name, meaning, column.cast(pa.float64()), described)
    for stamps in later:
        found.setdefault("timestamp", stamps)
    if columns.PLANNED in found and "epoch" in found:
        _of_run(found)
    return _kinds(table, found, second), found


def _of_run(found: dict[str, pa.Array]) -> None:
    """Take the plan of records whose epoch has a fraction as that of the run: they count its steps through."""
    part = pc.fill_null(pc.not_equal(found["epoch"], pc.floor(found["epoch"])), False)
    planned = found[columns.PLANNED]
    found.setdefault("total_steps", pc.if_else(part, planned, None))
    found[columns.PLANNED] = pc.if_else(part, None, planned)


def _total_of(name: str, table: pa.Table) -> columns.Resolved | None:
    """Return what the second number of a column of fractions (`step: 10/438`) is: how many there are of the first."""
    base = name.removesuffix("_total")
    position = columns.resolve(base).position if base != name and base in table.column_names else None
    if position not in ("step", "epoch"):
        return None
    whole = "epoch" in map(columns.squash, table.column_names) and position == "step"
    return columns.exact("epochs" if position == "epoch" else columns.PLANNED if whole else "total_steps")


def _instants(printed: str, meaning: columns.Resolved, values: pa.Array, described: Mapping[str, Column]) -> pa.Array | None:
    """Return numbers as wall clock where their name and the first of them say that they are instants, else None."""
    if not instants.is_clock(printed) or any(column.printed == printed for column in described.values()):
        return None
    values = _in_unit(values, meaning)
    return instants.wall_clock(values) if instants.is_instant(pc.drop_null(values)[0].as_py()) else None


def _in_unit(values: pa.Array, meaning: columns.Resolved) -> pa.Array:
    values = pc.multiply(values, meaning.multiply) if meaning.multiply != 1 else values
    return pc.divide(values, meaning.divide) if meaning.divide != 1 else values


def _add(
    found: dict[str, pa.Array], printed: str, meaning: columns.Resolved, values: pa.Array, described: dict[str, Column]
) -> None:
    """Add a column; where another printed name has filled its cell already, the value keeps its printed name."""
    values = _in_unit(values, meaning)
    name = "step_printed" if meaning.position == "step" else meaning.name
    if name in found:
        taken = found[name].is_valid()
        found[name] = pc.coalesce(found[name], values)
        values = pc.if_else(taken, values, None)
        if values.null_count == len(values):
            return
        name = columns.spare_name(printed, found)
    found[name] = values
    if (not meaning.position or name not in _PLACES) and name != columns.PLANNED:
        described.setdefault(name, Column(name, printed, meaning.unit, meaning.role if name == meaning.name else None))


def _precedence(name: str) -> tuple[int, int, str]:
    """Return what decides which of two names for one thing wins: the global step, the order of columns.toml, the alphabet."""
    key = columns.squash(name)
    return _STEP_ORDER.index(key) if key in _STEP_ORDER else len(_STEP_ORDER), columns.precedence(name), name


def _stamps(column: pa.Array) -> pa.Array | None:
    """Return a text column as wall clock if it holds wall clock times, else None."""
    text = column.cast(pa.string())
    fits = pc.match_substring_regex(text, _STAMP)
    if not pc.any(fits).as_py():
        return None
    plain = pc.replace_substring_regex(pc.utf8_ltrim_whitespace(text), r"^(.{19})([.,]\d+)?.*$", r"\1\2")  # no zone
    return timestamps(pc.if_else(fits, plain, None))


def _kind_columns(table: pa.Table) -> list[str]:
    return [
        name for name in table.column_names
        if name.lower() in _KIND_COLUMNS and pa.types.is_string(table.schema.field(name).type)
        and any(_KINDS.get(str(value).lower()) for value in pc.unique(table[name]).to_pylist()[:20])
    ]  # fmt: skip


def _kinds(table: pa.Table, found: Mapping[str, pa.Array], second: list[pa.Array]) -> pa.Array:
    """Return the kind of each row: as a column says (`type`, `split`, …), else by what the row measures.

    `second` holds losses under another name than that of the training records: with an evaluation beside them, they are
    the mean of an epoch that was evaluated.
    """
    guessed = _guessed(table.num_rows, found, _any_valid(table.num_rows, second))
    for name in _kind_columns(table)[:1]:
        words = pc.utf8_lower(whole(table[name]))
        values = pc.unique(words)
        known = pa.array([_KINDS.get(str(value)) for value in values.to_pylist()], pa.string())
        guessed = pc.coalesce(known.take(pc.index_in(words, values)), guessed)
    return guessed


def _guessed(count: int, found: Mapping[str, pa.Array], second: np.ndarray) -> pa.Array:
    roles = columns.canonical()
    kinds = repeated("train", count)
    evaluates = _any_valid(count, [c for n, c in found.items() if n.startswith("eval_")])
    if evaluates.any():
        losses = [
            n for n in found if n in roles and roles[n].role in LOSS_ROLES or n.startswith("train/") and n.endswith("loss")
        ]
        trains = _any_valid(count, [found[n] for n in losses])
        kinds = pc.if_else(pa.array(evaluates & (~trains | second)), "eval", kinds)
    if not any(n in found for n in ("loss", "step_printed", "epoch", "lr", "reward")):
        hardware = _any_valid(count, [c for n, c in found.items() if n in roles and roles[n].role in _TELEMETRY])
        kinds = pc.if_else(pa.array(hardware), "telemetry", kinds)
    return kinds


def _any_valid(count: int, arrays: list[pa.Array]) -> np.ndarray:
    result = np.zeros(count, bool)
    for array in arrays:
        if not array.null_count:
            return np.ones(count, bool)
        result |= array.is_valid().to_numpy(zero_copy_only=False)
    return result


def trains(part: pa.Table) -> pa.Array:
    """Return which rows of a part are training records with a loss or a reward."""
    roles = columns.canonical()
    names = [n for n in part.column_names if n in ("policy_loss", "reward") or (n in roles and roles[n].role in LOSS_ROLES)]
    measured = _any_valid(part.num_rows, [whole(part[name]) for name in names])
    return pa.array(is_kind(part, "train") & measured)


def numbers(count: int, found: Mapping[str, pa.Array], name: str) -> np.ndarray:
    """Return a canonical column as float64 (count,) with NaN for null; one that is not there is all NaN."""
    if name not in found:
        return np.full(count, np.nan)
    return found[name].cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)


def measures(count: int, found: Mapping[str, pa.Array]) -> np.ndarray:
    """Return which rows have a training loss."""
    roles = columns.canonical()
    return _any_valid(count, [column for name, column in found.items() if name in roles and roles[name].role in LOSS_ROLES])


def tells_training(count: int, found: Mapping[str, pa.Array]) -> np.ndarray:
    """Return which rows have a step or an epoch and a metric that training is judged by."""
    roles = columns.canonical()
    placed = _any_valid(count, [found[name] for name in ("step_printed", "epoch") if name in found])
    wanted = (*LOSS_ROLES, "eval_loss", "rl", "evaluation")
    return placed & _any_valid(count, [c for n, c in found.items() if n in roles and roles[n].role in wanted])

"""A run by epochs, or by stretches of steps: what each part brought, how long it took, and its curve over the way through it.

An epoch is known from what a line prints (a whole number, or a fraction as Hugging Face's Trainer does: 0.33 lies in the
first epoch, 1.0 is its end), else from the steps that an epoch is said to have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.losses import loss_kind
from analysis.segment import Segment
from analysis.wall import wall
from messages import N_, Text

FRACTION, WHOLE, STEPS, WINDOW = "fraction", "whole", "steps", "window"
BINS = 120  # of the curve of a part
MOST_PARTS = 100_000
LEAST_SHARE = 0.02  # of a part that must be done before its end is foretold
DONE = 0.98  # the last lines of an epoch are often not printed
LEAST_EVALS = 3  # the best one must lie so many back before it is said to have passed
TABLE = [
    *("part", "rows", "first_step", "last_step", "first_line", "mean", "min", "max", "first", "last", "nonfinite", "change"),
    *("eval", "lr_min", "lr_max", "seconds", "share", "projected"),
]
CURVES = ["part", "x", "mean", "low", "high"]


@dataclass(frozen=True, eq=False)
class Board:
    """A run in parts.

    how: where the number of a part comes from: FRACTION and WHOLE as printed, STEPS from the steps of an epoch, WINDOW from
        a number of steps; metric: the column that is told; planned: how many epochs are planned, None where not known.
    table: one row a part (TABLE): its number, rows and steps, mean, min, max over finite values, the first and last value
        as printed, how many were NaN or infinite; change: of the mean to that of the part before, relative; eval: the last
        evaluation loss in it; the range of the learning rate; seconds it took, the share of it that is done (0…1) and
        the seconds it will have taken, NaN where not known.
    curves: the metric over the way through each part (CURVES), x from 0 to 1, in at most BINS points a part.
    """

    how: str
    metric: str
    planned: float | None
    table: pd.DataFrame
    curves: pd.DataFrame


def board(segments: Sequence[Segment], *, metric: str | None = None, window: int | None = None) -> Board | None:
    """Return launches in parts by epoch, or of `window` steps; None where no line says which epoch, or the metric is nowhere.

    metric: a column of the training rows; by default the loss that is judged.
    """
    known = [segment for segment in segments if len(segment)]
    name = metric or next((main for main in (loss_kind(segment).main for segment in known) if main), None)
    if name is None:
        return None
    placed = [(segment, found) for segment in known if segment.has(name) and (found := _places(segment, window)) is not None]
    if not placed:
        return None
    rows = pd.concat([_rows(segment, name, number, at) for segment, (_how, number, at) in placed], ignore_index=True)
    rows = rows[np.isfinite(rows["part"])]
    if not len(rows) or rows["part"].nunique() > MOST_PARTS:
        return None
    evals = pd.concat([_evals(segment, number) for segment, (_how, number, _at) in placed], ignore_index=True)
    how, last = placed[-1][1][0], placed[-1][0]
    guessed = how == WHOLE and steps_per_epoch(last) is None
    table = _table(rows, evals, guessed=guessed)
    if last.total_steps and table["last_step"].iloc[-1] >= last.total_steps:
        table.loc[table.index[-1], "share"] = 1.0
    return Board(how, name, None if window else _planned(last, how), table, _curves(rows))


def sentence(known: Board) -> Text:
    """Return what the epochs say together: where evaluation was best, else what the last whole one brought."""
    table = known.table
    told = table[np.isfinite(table["eval"])]
    if len(told) >= LEAST_EVALS and told["eval"].idxmin() <= told.index[-LEAST_EVALS]:
        best = told.loc[told["eval"].idxmin()]
        gaps = {"best": int(best["part"]), "value": float(best["eval"]), "now": float(told["eval"].iloc[-1])}
        words = N_(
            "The evaluation was best in epoch {best} ({value:.4g}) and is {now:.4g} now: later epochs may only memorise."
        )
        return Text(words, gaps)
    whole = table[(table["share"] >= DONE) & np.isfinite(table["change"])]
    if not len(whole):
        return Text(N_("No second epoch is complete yet: there is nothing to compare."))
    last = whole.iloc[-1]
    gaps = {"part": int(last["part"]), "before": int(last["part"]) - 1, "share": abs(float(last["change"]))}
    if last["change"] <= 0:
        return Text(N_("Epoch {part} lies {share:.2%} below epoch {before} in the mean."), gaps)
    return Text(N_("Epoch {part} lies {share:.2%} above epoch {before} in the mean."), gaps)


def _places(segment: Segment, window: int | None) -> tuple[str, np.ndarray, np.ndarray] | None:
    """Return how parts are known, and of each row its part (n,) and the share of it that is done (n,)."""
    steps = segment.steps()
    if window:
        return (WINDOW, *_by_steps(steps, float(window)))
    epoch = segment.values("epoch")
    finite = epoch[np.isfinite(epoch) & (np.abs(epoch) < 2**31)]
    each = steps_per_epoch(segment)
    if not len(finite):
        return (STEPS, *_by_steps(steps, each)) if each else None
    if np.any(np.abs(finite - np.round(finite)) > 1e-9):
        number = np.maximum(np.ceil(epoch - 1e-9), 1.0)
        return FRACTION, number, epoch - (number - 1)
    return WHOLE, epoch, _way(epoch, steps, each)


def _by_steps(steps: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    number = np.maximum(np.ceil(steps / size), 1.0)
    return number, steps / size - (number - 1)


def _way(number: np.ndarray, steps: np.ndarray, each: float | None) -> np.ndarray:
    """Return how far through its epoch each row lies, told by the steps: those of an epoch, else of the longest so far."""
    frame = pd.DataFrame({"number": number, "step": steps}).groupby("number")["step"]
    first, last = frame.transform("min").to_numpy(), frame.transform("max").to_numpy()
    gap = float(np.median(np.abs(np.diff(steps)))) if len(steps) > 1 else 1.0
    longest = each or max(float(np.nanmax(last - first, initial=0.0)) + gap, 1.0)
    before = np.minimum(first, gap)  # the first row of an epoch is the end of its first interval
    return np.clip((steps - first + before) / longest, 0.0, 1.0)


def steps_per_epoch(segment: Segment) -> float | None:
    """Return the steps that the log says an epoch has, None where it does not say."""
    values = segment.values("steps_per_epoch")
    values = values[np.isfinite(values) & (values > 0)]
    return float(values[-1]) if len(values) else None


def _planned(segment: Segment, how: str) -> float | None:
    values = segment.values("epochs")
    values = values[np.isfinite(values) & (values > 0)]
    if len(values):
        return float(values[-1])
    named = (segment.config.get(name) for name in ("num_train_epochs", "Num Epochs", "epochs", "num_epochs"))
    found = next((value for value in named if isinstance(value, int | float) and 0 < value < 1e6), None)
    if found is None and how == FRACTION and segment.total_steps and segment.step(len(segment) - 1):
        reached = float(segment.values("epoch")[-1]) / float(segment.steps()[-1]) * segment.total_steps
        return float(round(reached)) if np.isfinite(reached) and reached >= 1 else None
    return found


def _rows(segment: Segment, metric: str, number: np.ndarray, at: np.ndarray) -> pd.DataFrame:
    lines = segment.values("line") if segment.has("line") else np.full(len(segment), np.nan)
    values = np.where(segment.printed(metric), segment.values(metric), np.nan)
    frame = pd.DataFrame({"part": number, "at": at, "step": segment.steps(), "line": lines, "value": values})
    frame["printed"], frame["lr"] = segment.printed(metric), segment.values("lr")
    known = wall(segment)
    seconds = np.full(len(segment), np.nan)
    if known is not None:
        seconds[:] = 0.0
        np.add.at(seconds, known.row, known.seconds)
    return frame.assign(seconds=seconds)


def _evals(segment: Segment, number: np.ndarray) -> pd.DataFrame:
    """Return of each evaluation the epoch in which it stands in the log, and its loss."""
    name = next((name for name in ("eval_loss", "loss") if name in segment.evals), None)
    if name is not None and "line" in segment.evals and segment.has("line"):
        row = np.searchsorted(segment.values("line"), segment.evals["line"].to_numpy(float), "right") - 1
        return pd.DataFrame({"part": number[np.maximum(row, 0)], "value": segment.evals[name].to_numpy(float)})
    values = segment.values("eval_loss")
    told = np.isfinite(values)
    return pd.DataFrame({"part": number[told], "value": values[told]})


def _table(rows: pd.DataFrame, evals: pd.DataFrame, *, guessed: bool) -> pd.DataFrame:
    finite = np.isfinite(rows["value"])
    rows = rows.assign(finite=rows["value"].where(finite), bad=rows["printed"] & ~finite)
    groups = rows.groupby("part", sort=True)
    each = {
        "rows": ("step", "size"),
        "first_step": ("step", "min"),
        "last_step": ("step", "max"),
        "first_line": ("line", "min"),
    }
    each |= {name: ("finite", name) for name in ("mean", "min", "max")} | {"nonfinite": ("bad", "sum")}
    each |= {"lr_min": ("lr", "min"), "lr_max": ("lr", "max"), "share": ("at", "max")}
    table = groups.agg(**each)
    printed = rows[rows["printed"]].groupby("part")["value"].agg([_first, _last])
    table["first"], table["last"] = printed["_first"], printed["_last"]
    table["seconds"] = groups["seconds"].sum(min_count=1)
    table["change"] = table["mean"].pct_change(fill_method=None)
    table["eval"] = evals[np.isfinite(evals["value"])].groupby("part")["value"].last() if len(evals) else np.nan
    table["share"] = _shares(table["share"].to_numpy(), _gap(rows, table.index[-1]), guessed=guessed)
    enough = (table["share"] >= LEAST_SHARE) & (table["seconds"] > 0)
    table["projected"] = (table["seconds"] / table["share"]).where(enough)
    return table.reset_index()[TABLE].replace([np.inf, -np.inf], np.nan)


def _gap(rows: pd.DataFrame, part: float) -> float:
    """Return the share of a part that lies between two of its rows."""
    at = rows.loc[rows["part"] == part, "at"].to_numpy()
    return float(np.median(np.diff(at))) if len(at) > 1 else 0.0


def _shares(reached: np.ndarray, gap: float, *, guessed: bool) -> np.ndarray:
    """Return the share of each part that is done: all of those that another one follows.

    gap: between two rows, so a last one that is no further from the end closes the part; guessed: the length of a part is
    that of the longest so far, so the last one may go on beyond it (NaN).
    """
    shares = np.ones(len(reached))
    last = float(np.clip(reached[-1], 0.0, 1.0))
    shares[-1] = np.nan if guessed and last >= 1.0 else 1.0 if last + gap > 1.0 + 1e-9 else last
    return shares


def _first(values: pd.Series) -> float:
    return float(values.iloc[0])


def _last(values: pd.Series) -> float:
    return float(values.iloc[-1])


def _curves(rows: pd.DataFrame) -> pd.DataFrame:
    drawn = rows[np.isfinite(rows["value"]) & np.isfinite(rows["at"])]
    place = np.minimum((drawn["at"].to_numpy().clip(0, 1) * BINS).astype(int), BINS - 1)
    grouped = drawn.assign(place=place).groupby(["part", "place"])
    curves = grouped.agg(x=("at", "mean"), mean=("value", "mean"), low=("value", "min"), high=("value", "max")).reset_index()
    return curves[CURVES]

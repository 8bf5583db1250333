"""What the page Epochs says: the board of a run as frames, figures and words."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.epochs import DONE, STEPS, WINDOW, Board, board
from analysis.findings import Finding
from server import service
from storage.types import Run
from ui import state
from ui.html import bar, figure
from ui.text import _, duration, number, percent

STRETCHES = (10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000)
MOST_STRETCHES, LEAST_STRETCHES = 1_000, 2
DRAWN = 9  # curves over each other; more can't be told apart
FAR, LEAST_TO_DROP = 1.0, 4  # times the range of all others; parts
LOG_RATIO = 8.0  # between the largest and the smallest mean: beyond it the curves need a logarithmic scale


@state.cached
def board_of(run_id: str, version: int, launch: int | None, window: int | None, metric: str | None) -> Board | None:
    """Return the board of this version of a run; None where no line says which epoch, or has the metric."""
    segments = service.get().segments(run_id)
    chosen = [segment for segment in segments if launch is None or segment.number == launch]
    return board(chosen, metric=metric, window=window)


def stretches(run: Run) -> list[int]:
    """Return the numbers of steps by which a run can be cut into some, but not too many, parts."""
    if run.first_step is None or run.last_step is None:
        return []
    steps = run.last_step - run.first_step + 1
    return [size for size in STRETCHES if LEAST_STRETCHES <= steps / size <= MOST_STRETCHES]


def usual_stretch(sizes: Sequence[int], run: Run) -> int:
    """Return the size that gives about twenty parts."""
    steps = (run.last_step or 0) - (run.first_step or 0) + 1
    return min(sizes, key=lambda size: abs(math.log(steps / size / 20)))


def name_of(part: float, known: Board, window: int | None) -> str:
    """Return what a part is called."""
    if known.how == WINDOW and window:
        first = (int(part) - 1) * window + 1
        return _("steps {first}–{last}").format(first=number(first), last=number(int(part) * window))
    return _("Epoch {n}").format(n=number(int(part)))


def figures(known: Board) -> Iterator[str]:
    """Yield the headline figures of a run by epochs; what is not known is left out."""
    table = known.table
    last = table.iloc[-1]
    done, planned = len(table) if last["share"] >= DONE else len(table) - 1, known.planned
    of = _("of {planned}").format(planned=number(planned)) if planned else _("planned number not in the log")
    yield figure(_("Epochs complete"), number(done), of, below=bar(done / planned) if planned else "")
    if last["share"] < DONE:
        words = _("epoch {n}").format(n=number(int(last["part"])))
        yield figure(_("Way through this epoch"), percent(last["share"]), words, below=bar(float(last["share"])))
    whole = table[table["share"] >= DONE]
    usual = whole["seconds"][whole["seconds"] > 0]
    if len(usual):
        yield figure(_("An epoch takes"), duration(float(usual.median())), _spread(usual))
    if last["share"] < DONE and last["projected"] > 0:
        words = _("{time} in all").format(time=duration(last["projected"]))
        yield figure(_("This epoch still takes"), duration(float(last["projected"] - last["seconds"])), words)
    if table["eval"].notna().any():
        best = table.loc[table["eval"].idxmin()]
        yield figure(_("Best evaluation"), number(float(best["eval"])), _("epoch {n}").format(n=number(int(best["part"]))))


def _spread(seconds: pd.Series) -> str:
    low, high = duration(float(seconds.min())), duration(float(seconds.max()))
    return _("{low} to {high}").format(low=low, high=high) if low != high else ""


def parts_drawn(known: Board) -> np.ndarray:
    """Return the parts (at most DRAWN) that stand for all."""
    parts = known.table["part"].to_numpy()
    chosen: np.ndarray = parts[np.unique(np.linspace(0, len(parts) - 1, DRAWN).round().astype(int))]
    return chosen


def drawn(known: Board, window: int | None) -> pd.DataFrame:
    """Return the curves that are drawn over each other: the newest, the first, and others evenly between."""
    chosen = parts_drawn(known)
    if far_first(known, chosen):
        chosen = chosen[1:]
    curves = known.curves[known.curves["part"].isin(chosen)].copy()
    order = {part: place / max(len(chosen) - 1, 1) for place, part in enumerate(chosen)}
    curves["mean"] = curves["mean"].clip(curves["low"], curves["high"])  # of equal numbers it may differ in its last digit
    curves["age"] = curves["part"].map(order)
    curves["newest"] = curves["part"] == chosen[-1]
    curves["label"] = [name_of(part, known, window) for part in curves["part"]]
    curves["alone"] = ~curves["part"].duplicated(keep=False)
    ends = curves.groupby("part")["x"].idxmax()
    named = [ends.get(part) for part in (chosen[0], chosen[-1])]
    curves["name"] = None
    for at, part in zip(named, (chosen[0], chosen[-1]), strict=True):
        if at is not None:
            curves.loc[at, "name"] = number(int(part)) if known.how != WINDOW else number(int(part) * (window or 1))
    return curves


def one_point_each(known: Board) -> bool:
    """Say whether no part has two points to draw a line between: then the parts themselves make the line."""
    return not known.curves["part"].duplicated().any()


def by_part(known: Board, window: int | None, series: Mapping[str, str]) -> pd.DataFrame:
    """Return columns of the board over its parts: `part` (the last step of a stretch), `label`, `series`, `value`.

    `series`: what a person calls each column.
    """
    at = known.table["part"] * (window or 1)
    names = [name_of(part, known, window) for part in known.table["part"]]
    frames = [
        pd.DataFrame({"part": at, "label": names, "series": word, "value": known.table[name]}) for name, word in series.items()
    ]
    return pd.concat(frames, ignore_index=True).dropna(subset="value")


def far_first(known: Board, chosen: np.ndarray) -> bool:
    """Say whether the first part lies so far above that it would flatten the others: the start of learning does."""
    spans = known.curves[known.curves["part"].isin(chosen)].groupby("part")["mean"].agg(["min", "max"])
    if len(spans) < LEAST_TO_DROP:
        return False
    others = spans.iloc[1:]
    return bool(spans["max"].iloc[0] - others["max"].max() > FAR * (others["max"].max() - others["min"].min()))


def wants_log(curves: pd.DataFrame) -> bool:
    """Say whether the curves lie so far apart that only a logarithmic scale shows them all."""
    lowest, highest = curves["low"].min(), curves["mean"].max()
    return bool(lowest > 0 and highest / lowest > LOG_RATIO)


def table(known: Board, window: int | None, findings: Sequence[Finding]) -> pd.DataFrame:
    """Return the board as it is shown, the newest part first; times in minutes, shares in percent."""
    found = known.table.iloc[::-1]
    shown = pd.DataFrame({"name": [name_of(part, known, window) for part in found["part"]]})
    for column in ("mean", "min", "max", "first", "last", "eval", "lr_min", "lr_max", "nonfinite", "rows"):
        shown[column] = found[column].to_numpy()
    shown.insert(2, "change", 100 * found["change"].to_numpy())
    shown["minutes"] = found["seconds"].to_numpy() / 60
    running = (found["share"] < DONE).to_numpy()
    shown["projected"] = np.where(running, found["projected"].to_numpy() / 60, np.nan)
    shown["steps"] = [f"{number(first)}–{number(last)}" for first, last in found[["first_step", "last_step"]].to_numpy()]
    spans = found[["first_step", "last_step"]].to_numpy()
    shown["findings"] = [sum(_begins(one, first, last) for one in findings) for first, last in spans]
    return shown.drop(columns=[name for name in _OPTIONAL if not _told(shown[name])])


_OPTIONAL = ("eval", "lr_min", "lr_max", "nonfinite", "minutes", "projected", "change")


def _told(column: pd.Series) -> bool:
    return bool((column.notna() & (column != 0)).any())


def _begins(finding: Finding, first: float, last: float) -> bool:
    return finding.first_step is not None and first <= finding.first_step <= last


def basis(known: Board, window: int | None) -> str:
    """Return in words how it is known which part a row belongs to."""
    if known.how == WINDOW:
        return _("Stretches of {n} steps.").format(n=number(window or 0))
    if known.how == STEPS:
        return _("Epochs are counted from the steps that the log says an epoch has.")
    return _("Epochs as the log prints them.")

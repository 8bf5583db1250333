"""The phases of a run for the band over its charts, from as few rows as a chart draws."""

import pandas as pd
import pyarrow as pa

from analysis.phases import phases
from messages import N_, Text
from server.service import to_segments
from storage.types import Column
from ui import state
from ui.axes import STEP
from ui.text import _, say

COLUMNS = ["x", "x_last", "label", "text", "shade"]
WIDTH = 1500  # buckets of which the phases are told
NAMES = {
    "warmup": N_("Warm-up"),
    "fast_fall": N_("Fast fall"),
    "slow_fall": N_("Slow fall"),
    "plateau": N_("Plateau"),
    "flat": N_("No fall yet"),
    "rise": N_("Rise"),
}


@state.cached
def found(run_id: str, version: int, segment: int | None) -> list[tuple[int, int, str, Text]]:
    """Return the phases of a launch (None: of each): first and last step, kind, text."""
    columns = state.columns(run_id, version)
    losses = tuple(column.name for column in columns if _tells(column))
    buckets = state.buckets(run_id, version, (*losses, "lr"), STEP, None, segment, WIDTH)
    if not len(buckets) or not losses:
        return []
    wide = buckets.pivot_table(index=["segment", "x"], columns="metric", values="mean", sort=True).reset_index()
    rows = {"line": range(1, len(wide) + 1), "kind": ["train"] * len(wide), "segment": wide["segment"].astype("int32")}
    rows |= {"step": wide["x"].astype("int64")} | {name: wide[name] for name in wide.columns if name not in ("segment", "x")}
    segments = to_segments(pa.table({str(name): pa.array(values) for name, values in rows.items()}), (), {})
    return [(one.first_step, one.last_step, one.kind, one.text) for part in segments for one in phases(part)]


def _tells(column: Column) -> bool:
    return column.role in ("loss", "main_loss")


def band(run_id: str, version: int, segment: int | None) -> pd.DataFrame:
    """Return the band (columns COLUMNS), x in steps, in the language of this session."""
    rows = [
        (first, last, _(NAMES.get(kind, kind)), say(text), index % 2)
        for index, (first, last, kind, text) in enumerate(found(run_id, version, segment))
    ]
    return pd.DataFrame(rows, columns=COLUMNS)

"""The full data of a chart as CSV or Parquet: every row behind it, not its buckets."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from storage.types import Run
from ui import state

MAX_ROWS = 5_000_000  # in the browser; more: cli.py export
PIECE_ROWS = 200_000
PLACES = ("line", "kind", "segment", "step", "epoch", "timestamp")


@dataclass(frozen=True)
class Rows:
    """Which rows: of a run, of these metrics, in a range of steps (None: all), of one launch (None: all)."""

    run: Run
    metrics: tuple[str, ...]
    first_step: int | None = None
    last_step: int | None = None
    segment: int | None = None

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the rows that print one of the metrics, piece by piece, in the order of their steps."""
        for first, last in self._windows():
            rows = state.store().frame(
                self.run.id,
                [*PLACES, *self.metrics],
                kind=None,
                segment=self.segment,
                first_step=first,
                last_step=last,
            )
            printed = [rows[name].is_valid() for name in self.metrics if name in rows.column_names]
            kept = pa.chunked_array([[False] * len(rows)]) if not printed else printed[0]
            for column in printed[1:]:
                kept = pc.or_(kept, column)
            yield rows.filter(kept)

    def _windows(self) -> Iterator[tuple[int | None, int | None]]:
        run = self.run
        if run.first_step is None or run.last_step is None:
            yield None, None
            return
        low = run.first_step if self.first_step is None else max(self.first_step, run.first_step)
        high = run.last_step if self.last_step is None else min(self.last_step, run.last_step)
        count = -(-run.rows // PIECE_ROWS)
        size = max(1, -(-(run.last_step - run.first_step + 1) // max(1, count)))
        for start in range(low, high + 1, size):
            yield start, min(start + size - 1, high)


def steps_of(buckets: pd.DataFrame) -> tuple[int | None, int | None]:
    """Return the first and last step that buckets hold."""
    known = buckets[["min_step", "max_step"]].to_numpy(dtype=float, na_value=np.nan) if len(buckets) else np.empty((0, 2))
    known = known[np.isfinite(known)]
    return (int(known.min()), int(known.max())) if known.size else (None, None)


def to_csv(rows: Rows) -> bytes:
    """Return rows as CSV: an empty cell was not printed, `nan` and `inf` were."""
    out = io.BytesIO()
    for number, piece in enumerate(rows.pieces()):
        options = pyarrow.csv.WriteOptions(include_header=number == 0, quoting_style="needed")
        pyarrow.csv.write_csv(piece, out, options)
    return out.getvalue()


def to_parquet(rows: Rows) -> bytes:
    """Return rows as Parquet: null was not printed."""
    out = io.BytesIO()
    writer = None
    for piece in rows.pieces():
        writer = writer or pyarrow.parquet.ParquetWriter(out, piece.schema, compression="zstd")
        writer.write_table(piece)
    if writer:
        writer.close()
    return out.getvalue()


def file_name(run: Run, metrics: Sequence[str], ending: str) -> str:
    """Return a file name that says what is in it, safe on every system."""
    stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in run.name)[:60].strip("._") or run.id
    return f"{stem}-{metrics[0] if metrics else 'chart'}.{ending}".replace("/", "_")

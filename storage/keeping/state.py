"""What the store knows of a run beside its rows, and how that follows the rows: counts, ends, last values, sparklines."""

from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.keeping.originals import End, end_of
from storage.keeping.reports import clean_text
from storage.keeping.schema import first_row, known, metric_column, rows_table
from storage.keeping.spark import Spark, points_of
from storage.types import Column


@dataclass
class Metric:
    """What is kept of one metric of a run: number of its column, description, last value and its step, counts, sparkline."""

    no: int
    column: Column
    step: int | None = None
    value: float | None = None
    count: int = 0
    nonfinite: int = 0
    spark: Spark = field(default_factory=Spark.empty)
    stored: bool = False

    def follow(self, rows: pa.Table) -> None:
        """Take the values of the next rows."""
        column = rows[metric_column(self.no)]
        values = column.drop_null().to_numpy()
        if not len(values):
            return
        steps = rows["step"].filter(column.is_valid()) if column.null_count else rows["step"]
        self.step, self.value = steps[-1].as_py(), float(values[-1])
        self.count += len(values)
        self.nonfinite += int(np.count_nonzero(~np.isfinite(values)))
        self.spark.add(values)


@dataclass
class RunState:
    """A run as its transaction found it, and as it will leave it.

    `first_time` is in ms, `version` that of the last commit, `columns` those of its table in their order: none while it has
    no table.
    """

    id: str
    no: int
    archive: int = 0
    version: int = 0
    rows: int = 0
    segments: int = 0
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    first_time: int | None = None
    end: End = field(default_factory=End)
    metrics: dict[str, Metric] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)

    def follow(self, rows: pa.Table) -> None:
        """Bring everything up to date with the next rows (as the warehouse keeps them, `kind` coded)."""
        self.rows += rows.num_rows
        self.segments = max(self.segments, (pc.max(rows["segment"]).as_py() or 0) + 1)
        self.first_time = pc.min(rows["timestamp"]).as_py() if self.first_time is None else self.first_time
        trained = _only(rows, "train")["step"].drop_null()
        if len(trained):
            self.first_step = trained[0].as_py() if self.first_step is None else self.first_step
            self.last_step = trained[-1].as_py()
        series = _only(rows, "summary", wanted=False)
        for metric in self.metrics.values():
            if metric_column(metric.no) in series.column_names:
                metric.follow(series)
        names = ("total_steps", "epochs", "steps_per_epoch")
        total, epochs, each = (self.metrics[name].value if name in self.metrics else None for name in names)
        if total is None and epochs is not None and each is not None:
            total = epochs * each
        if total is not None and 0 < total < 2**53:
            self.total_steps = int(total)

    def kept(self) -> dict[str, int | None]:
        """Return what of this stands in the row of the run."""
        names = ("rows", "segments", "first_step", "last_step", "total_steps", "first_time")
        return {name: getattr(self, name) for name in names}


def _only(rows: pa.Table, kind: str, *, wanted: bool = True) -> pa.Table:
    """Return the rows of a kind, or those of all others."""
    kinds = rows["kind"].combine_chunks()
    of_kind = np.array([each == kind for each in kinds.dictionary.to_pylist()], bool) == wanted
    return rows if of_kind.all() else rows.filter(pa.array(of_kind[kinds.indices.to_numpy()]))


def load_state(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunState:
    """Read the state of a run. Raises UnknownRun."""
    sql = (
        "select id, no, archive, version, rows, segments, first_step, last_step, total_steps, first_time "
        "from runs where id = ? and deleted is null"
    )
    run = RunState(*known(first_row(cursor, sql, [run_id]), run_id))
    run.end = end_of(cursor, run.no)
    run.columns = [column[0] for column in cursor.execute(f"select * from {rows_table(run.no)} limit 0").description]
    names = "no, name, printed, unit, role, step, value, count, nonfinite, spark, stride"
    metrics = cursor.execute(f"select {names} from metrics where run = ? order by no", [run.no]).fetchall()
    for no, name, printed, unit, role, step, value, count, nonfinite, spark, stride in metrics:
        points = Spark(points_of(spark), stride, count)
        run.metrics[name] = Metric(no, Column(name, printed, unit, role), step, value, count, nonfinite, points, True)
    return run


def metrics_rows(run_no: int, metrics: list[Metric]) -> pa.Table:
    """Return metrics as rows of the table `metrics`."""
    columns = [metric.column for metric in metrics]
    return pa.table(
        {
            "run": pa.array([run_no] * len(metrics), pa.int32()),
            "no": pa.array([m.no for m in metrics], pa.int32()),
            "name": pa.array([clean_text(c.name) for c in columns], pa.string()),
            "printed": pa.array([clean_text(c.printed) for c in columns], pa.string()),
            "unit": pa.array([clean_text(c.unit) for c in columns], pa.string()),
            "role": pa.array([c.role for c in columns], pa.string()),
            "step": pa.array([m.step for m in metrics], pa.int64()),
            "value": pa.array([m.value for m in metrics], pa.float64()),
            "count": pa.array([m.count for m in metrics], pa.int64()),
            "nonfinite": pa.array([m.nonfinite for m in metrics], pa.int64()),
            "spark": pa.array([m.spark.points.tobytes() for m in metrics], pa.binary()),
            "stride": pa.array([m.spark.stride for m in metrics], pa.int64()),
        }
    )

"""Time and cost of a run, put together from what its log says and what a person adds: for the page and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.cost import CostReport, cost_model, cost_report
from analysis.diagnose import Diagnosis
from analysis.ending import current_launch
from analysis.forecast import Forecast, forecast
from analysis.log_overhead import LogSize, log_size
from analysis.mfu import Communication, Throughput, communication, throughput
from analysis.prices import price_table
from analysis.segment import Segment
from analysis.time_left import FailureRate
from analysis.wall import wall
from messages import N_, Text
from storage.types import ParseReport

LAST_DATE = 4e9  # seconds since 1970, beyond which a clock is not believed
SILENT = timedelta(days=1)  # since its last line, from which on nobody knows whether a run goes on; zones are within it
COURSE = 600  # points of the way that are drawn
OWN_PRICES = "prices.toml"  # in the data directory; see analysis/prices.toml for its form


class Outlook(StrEnum):
    """What a date of the end is worth: it lies ahead of a run that goes on, or of one that may; or it has passed."""

    AHEAD = "ahead"
    SILENT = "silent"
    PASSED = "passed"


def outlook(end: datetime, last: datetime) -> Outlook:
    """Return what the date of an end is worth today; last: of the last line."""
    now = datetime.now(UTC)
    if end < now:
        return Outlook.PASSED
    return Outlook.SILENT if now - last > SILENT else Outlook.AHEAD


@dataclass(frozen=True)
class Wishes:
    """What a person says about the cost of a run; None: what the log or the price table says.

    gpus, gpu, price, currency, watts, pue, co2_kg_per_kwh, storage_per_hour, idle_share, budget: see CostModel.
    meaning: of epoch_time; total_steps: the plan; failure_hours, lost_hours: hours between failures, and lost with each.
    """

    gpus: int | None = None
    gpu: str | None = None
    price: float | None = None
    currency: str | None = None
    watts: float | None = None
    pue: float | None = None
    co2_kg_per_kwh: float | None = None
    storage_per_hour: float = 0.0
    idle_share: float = 0.0
    budget: float | None = None
    meaning: str | None = None
    total_steps: int | None = None
    failure_hours: float | None = None
    lost_hours: float = 1.0

    @property
    def model(self) -> dict[str, Any]:
        """Return the arguments of `cost_model`."""
        names = [field.name for field in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index("meaning")]}

    @property
    def failures(self) -> FailureRate | None:
        """Return the failure rate, None where none is given."""
        return FailureRate(self.failure_hours, self.lost_hours) if self.failure_hours else None


@dataclass(frozen=True)
class Costs:
    """Everything the page Time & cost shows of a run.

    ends: when it will be done (early, middle, late), UTC, None where the log tells no date or no time left; loss: forecast,
    or why there is none; gain: loss to be gained with each further GPU-hour; size: what the log weighs. course: the way so
    far in at most COURSE points: `step`, `hours` since the start, `seconds` a step, `launch`; empty without a clock.
    """

    report: CostReport
    ends: tuple[datetime, datetime, datetime] | None
    throughput: Throughput
    communication: Communication | None
    loss: Forecast | Text
    gain: float | None
    size: LogSize | None
    course: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that `cost --json` prints."""
        loss, timed = self.loss, self.communication
        return self.report.to_dict() | {
            "ends": dict(zip(("p10", "p50", "p90"), (end.isoformat() for end in self.ends), strict=True))
            if self.ends
            else None,
            "tokens_per_second": self.throughput.tokens_per_second,
            "mfu": self.throughput.mfu,
            "mfu_text": self.throughput.formula.to_dict(),
            "compute_to_communication": timed.ratio if timed else None,
            "final_loss": _loss(loss, self.gain) if isinstance(loss, Forecast) else None,
            "final_loss_unknown": None if isinstance(loss, Forecast) else loss.to_dict(),
            "log": {name: getattr(self.size, name) for name in LogSize.__annotations__} if self.size else None,
        }


def costs(
    segments: Sequence[Segment], diagnosis: Diagnosis, report: ParseReport, wishes: Wishes, *, data_dir: Path | None = None
) -> Costs:
    """Return time and cost of a run. Raises ValueError for a wish that can't be, PriceTableError for a broken own table."""
    table = price_table(data_dir / OWN_PRICES if data_dir else None)
    model = cost_model(segments, table=table, **wishes.model)
    told = cost_report(
        segments,
        model,
        findings=diagnosis.findings,
        meaning=wishes.meaning,
        total_steps=wishes.total_steps,
        failures=wishes.failures,
    )
    current = current_launch(segments) if segments else None
    no_loss = Text(N_("there is no training step yet"))
    loss = forecast(current, total_steps=wishes.total_steps) if current is not None and len(current) else no_loss
    if told.over and told.left is not None and isinstance(loss, Forecast):
        loss = Text(N_("the plan is done, its last value stands in the log"))
    left_hours = model.gpu_hours(told.left.p50) if told.left else None
    return Costs(
        told,
        _ends(current, told),
        throughput(segments, model),
        communication(current) if current is not None and len(current) else None,
        loss,
        loss.gain_per_gpu_hour(left_hours) if isinstance(loss, Forecast) else None,
        log_weight(segments, report),
        course(segments, wishes.meaning),
    )


def _ends(current: Segment | None, told: CostReport) -> tuple[datetime, datetime, datetime] | None:
    """Return when the run ends by the clock of its lines; None without a date in them, or without a time left."""
    known = wall(current) if current is not None and len(current) else None
    if known is None or known.last is None or told.left is None or not 0 < known.last < LAST_DATE:
        return None
    last = datetime.fromtimestamp(known.last, UTC)
    if told.left.p90 > 3e9:
        return None
    early, middle, late = (last + timedelta(seconds=value) for value in (told.left.p10, told.left.p50, told.left.p90))
    return early, middle, late


def course(segments: Sequence[Segment], meaning: str | None) -> pd.DataFrame:
    """Return the way of a run so far, see `Costs.course`."""
    parts, hours = [], 0.0
    for segment in segments:
        known = wall(segment, meaning)
        if known is None:
            continue
        edges = np.unique(np.linspace(0, len(known), min(len(known), COURSE // len(segments) + 1) + 1).astype(int))[:-1]
        seconds, steps = np.add.reduceat(known.seconds, edges), np.add.reduceat(known.steps, edges)
        passed = hours + np.cumsum(seconds) / 3600
        last = np.r_[edges[1:] - 1, len(known) - 1]
        part = pd.DataFrame({"step": segment.steps()[known.row[last]], "hours": passed, "launch": segment.number + 1})
        part = part.assign(seconds=np.where(steps > 0, seconds / np.maximum(steps, 1e-9), np.nan))
        if len(part) > 1:  # a row stands where its steps end: the first ones begin somewhere too
            began = part.iloc[:1].assign(step=max(part["step"].iloc[0] - steps[0], 0.0), hours=hours)
            part = pd.concat([began, part])
        parts.append(part)
        hours = float(passed[-1])
    columns = ["step", "hours", "launch", "seconds"]
    return pd.concat(parts, ignore_index=True)[columns].dropna() if parts else pd.DataFrame(columns=columns)


def log_weight(segments: Sequence[Segment], report: ParseReport) -> LogSize | None:
    """Return what a log weighs a step, None where it holds no steps."""
    steps = [
        step
        for segment in segments
        if len(segment)
        for step in (segment.step(0), segment.step(len(segment) - 1))
        if step is not None
    ]
    first, last = (min(steps), max(steps)) if steps else (None, None)
    return log_size(
        lines=report.lines,
        size=report.bytes,
        records=report.records,
        first_step=first,
        last_step=last,
        format=report.format or "",
    )


def _loss(loss: Forecast, gain: float | None) -> dict[str, Any]:
    return {
        "column": loss.column,
        "p5": loss.low,
        "p50": loss.final,
        "p95": loss.high,
        "now": loss.now,
        "gain_per_gpu_hour": gain,
        "text": loss.text.to_dict(),
    }

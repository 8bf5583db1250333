"""What a list of runs shows of time and money: kept beside the diagnosis, so that a list reads it and computes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.cost import CostModel, CostReport, cost_model, cost_report
from analysis.ending import current_launch
from analysis.findings import Finding
from analysis.machine import hardware
from analysis.prices import PriceTableError, price_table
from analysis.segment import Segment
from analysis.wall import wall
from messages import Text
from server.costs import LAST_DATE, OWN_PRICES, course


@dataclass(frozen=True)
class Facts:
    """What the totals of all runs are made of: seconds so far, GPUs as the log prints them, productive share, the name of the
    largest waste, median seconds a step, the last line by the clock of the log (seconds since 1970); None: not known."""

    elapsed: float | None = None
    gpus: int | None = None
    gpu: str | None = None
    goodput: float | None = None
    waste: str | None = None
    step_seconds: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class Glance:
    """left: seconds to go (p10, p50, p90), zeros when it is over; why: where that comes from, why it is not known, or why it
    is of no use to finish the run.

    no_use: it is of no use to finish it, so its time left is a condition; assumed: the time left rests on an assumption.
    spent, total: in `currency`. None: not known. facts: None of a run that was judged before they were kept.
    """

    left: tuple[float, float, float] | None = None
    over: bool = False
    spent: float | None = None
    total: float | None = None
    currency: str = "USD"
    why: Text | None = None
    facts: Facts | None = None
    no_use: bool = False
    assumed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return asdict(self) | {"why": self.why.to_dict() if self.why else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None) -> "Glance":
        """Read back what `to_dict` wrote; None: a diagnosis that was kept without it. Facts that lack one are as none."""
        if not data:
            return cls()
        left, why = data.get("left"), data.get("why")
        told = tuple(left) if left else None
        kept = data.get("facts") or {}
        facts = Facts(**kept) if kept.keys() == Facts.__dataclass_fields__.keys() else None
        said = Text.from_dict(why) if why else None
        conditions = {name: bool(data.get(name)) for name in ("no_use", "assumed")}
        return cls(told, data["over"], data["spent"], data["total"], data["currency"], said, facts, **conditions)


def glance(segments: Sequence[Segment], findings: Sequence[Finding], data_dir: Path | None) -> Glance:
    """Return time and money of a run at a glance, as its log and the price table say."""
    try:
        model = cost_model(segments, table=price_table(data_dir / OWN_PRICES if data_dir else None))
    except (PriceTableError, ValueError):  # the page Time & cost says what is wrong with it; the time is known all the same
        model = CostModel()
    told = cost_report(segments, model, findings=findings)
    left = (told.left.p10, told.left.p50, told.left.p90) if told.left else None
    spent = None if told.elapsed is None else model.money(told.elapsed)
    total = None if told.total is None else model.money(told.total[1])
    why = told.of_no_use or (told.left.source if told.left else told.why)
    facts = _facts(segments, told)
    return Glance(left, told.over, spent, total, model.currency, why, facts, told.of_no_use is not None, told.assumed)


def _facts(segments: Sequence[Segment], told: CostReport) -> Facts:
    log, book, seconds = hardware(segments), told.book, course(segments, None)["seconds"]
    waste = book.waste[0].name if book and book.waste else None
    step = float(seconds.median()) if len(seconds) else None
    known = wall(current_launch(segments)) if segments else None
    ended = known.last if known is not None and known.last is not None and 0 < known.last < LAST_DATE else None
    return Facts(told.elapsed, log.gpus, log.gpu, book.goodput if book else None, waste, step, ended)

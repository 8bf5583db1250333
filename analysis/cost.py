"""From hours to GPU-hours, money, energy and carbon dioxide, and what each of them rests on.

Amounts exist only where what they need is known: without a number of GPUs there are hours, without a price GPU-hours.
A price of 0 is a price. Energy is what the log measured, else rated power, which is an upper estimate and is said to be one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.ending import current_launch
from analysis.epoch_time import EpochTime, epoch_time
from analysis.findings import Finding
from analysis.ledger import Ledger, ledger
from analysis.lost import of_no_use
from analysis.machine import hardware
from analysis.over import ENDED, ENDED_EARLY
from analysis.prices import Price, PriceTable, price_table
from analysis.segment import Segment
from analysis.time_left import Estimate, FailureRate, no_time, time_left, why_unknown
from analysis.wall import AS_WHAT_IS_LEFT
from messages import N_, Text

HOUR = 3600.0
GIVEN = N_("as given")
UNKNOWN_GPU = N_("the table of GPUs does not know “{gpu}”: give price and power yourself")
NO_PRICE = N_("no price: give one for a GPU and hour")
BUDGET_SPENT = N_("the budget of {budget:,.2f} {currency} is spent: {spent:,.2f} so far")
BUDGET_PASSED = N_(
    "the budget of {budget:,.2f} {currency} does not reach to the end: {p50:,.2f} expected, {p90:,.2f} at the 90th percentile"
)
BUDGET_TIGHT = N_(
    "the budget of {budget:,.2f} {currency} may not reach to the end: {p50:,.2f} expected, {p90:,.2f} at the 90th percentile"
)


@dataclass(frozen=True)
class CostModel:
    """What an hour costs; None = not known.

    gpus: number of GPUs; gpu: their kind; price: of one GPU an hour in `currency`. watts: mean draw of one GPU; pue: energy of
    the building over that of the machines; co2_kg_per_kwh: of the power used.
    storage_per_hour: what else runs by the hour; idle_share: part of the paid time in which the GPUs do not run this job, 0…1.
    budget: in `currency`. sources: where each comes from, by name.
    """

    gpus: int | None = None
    gpu: str | None = None
    price: float | None = None
    currency: str = "USD"
    watts: float | None = None
    pue: float = 1.0
    co2_kg_per_kwh: float | None = None
    storage_per_hour: float = 0.0
    idle_share: float = 0.0
    budget: float | None = None
    peak_tflops: float | None = None
    sources: tuple[tuple[str, Text], ...] = ()

    def __post_init__(self) -> None:
        for name in ("gpus", "price", "watts", "pue", "co2_kg_per_kwh", "storage_per_hour", "budget"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} can't be {value}")
        if self.gpus == 0:
            raise ValueError("gpus can't be 0: leave it out where it is not known")
        if not 0 <= self.idle_share < 1:
            raise ValueError(f"idle_share can't be {self.idle_share}: it is a share below 1")

    def gpu_hours(self, seconds: float) -> float | None:
        """Return the GPU-hours paid for `seconds` of the run, idle time with them."""
        return None if self.gpus is None else self.gpus * seconds / HOUR / (1 - self.idle_share)

    def money(self, seconds: float) -> float | None:
        """Return what `seconds` of the run cost, None where GPUs or price are not known."""
        hours = self.gpu_hours(seconds)
        if hours is None or self.price is None:
            return None
        return hours * self.price + self.storage_per_hour * seconds / HOUR

    def kwh(self, seconds: float) -> float | None:
        """Return the energy of `seconds` of the run in kWh, the building's share with it."""
        if self.gpus is None or self.watts is None:
            return None
        return self.gpus * self.watts / 1000 * seconds / HOUR * self.pue

    def co2_kg(self, seconds: float) -> float | None:
        """Return the kilograms of carbon dioxide of `seconds` of the run."""
        kwh = self.kwh(seconds)
        return None if kwh is None or self.co2_kg_per_kwh is None else kwh * self.co2_kg_per_kwh


@dataclass(frozen=True)
class CostReport:
    """Time, amounts and waste of a run.

    left: seconds to go, or None with `why` no number. total: seconds of the whole run (p10, p50, p90), None where not known.
    warnings: about the budget. missing: what is needed for an amount that is not there. of_no_use: why it is so to finish
    the run, None where nothing says so; the time left holds if it is finished all the same. timeless: what the log lacks
    where it does not tell the time so far.
    """

    model: CostModel
    epoch: EpochTime | None
    book: Ledger | None
    left: Estimate | None
    why: Text | None
    warnings: tuple[Text, ...] = ()
    missing: tuple[Text, ...] = ()
    of_no_use: Text | None = None
    timeless: Text | None = None

    @property
    def elapsed(self) -> float | None:
        """Return the seconds from the first line to the last, None where the log does not tell the time."""
        return self.book.seconds if self.book else None

    @property
    def total(self) -> tuple[float, float, float] | None:
        """Return the seconds of the whole run (p10, p50, p90); what is over if it has ended."""
        if self.elapsed is None or (self.left is None and not self.over):
            return None
        left = self.left or Estimate(0, 0, 0, Text(GIVEN))
        return self.elapsed + left.p10, self.elapsed + left.p50, self.elapsed + left.p90

    @property
    def notes(self) -> tuple[Text, ...]:
        """Return what the time so far and the time left leave out or assume, each once."""
        first = self.book.notes if self.book else ()
        return (*first, *(note for note in (self.left.notes if self.left else ()) if note not in first))

    @property
    def assumed(self) -> bool:
        """Say whether the time so far and left rest on what epoch_time is taken for, which its lines do not show yet."""
        return bool(self.epoch and self.epoch.assumed and self.book and self.book.source.template == AS_WHAT_IS_LEFT)

    @property
    def over(self) -> bool:
        """Say whether the run has ended, finished or not."""
        ended = self.why is not None and self.why.template in (ENDED, ENDED_EARLY)
        return ended or (self.left is not None and self.left.p90 == 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that `cost --json` prints."""
        book = self.book
        return {
            "epoch_time_meaning": self.epoch.meaning if self.epoch else None,
            "epoch_time_assumed": self.epoch.assumed if self.epoch else None,
            "epoch_time_possible": list(self.epoch.possible) if self.epoch else [],
            "epoch_time_text": self.epoch.text.to_dict() if self.epoch else None,
            "epoch_time_minutes": _minutes(self.epoch),
            "elapsed_s": self.elapsed,
            "elapsed_source": self.book.source.to_dict() if self.book else None,
            "elapsed_unknown": self.timeless.to_dict() if self.timeless else None,
            "remaining_s": _left_dict(self.left),
            "remaining_unknown": self.why.to_dict() if self.why else None,
            "over": self.over,
            "of_no_use": self.of_no_use.to_dict() if self.of_no_use else None,
            "total_s": self.total[1] if self.total else None,
            "total_range_s": dict(zip(("p10", "p50", "p90"), self.total, strict=True)) if self.total else None,
            "cost": self._amounts(),
            "waste": [_item_dict(item, self.model) for item in book.waste] if book and book.goodput is not None else None,
            "goodput": book.goodput if book else None,
            "notes": [note.to_dict() for note in self.notes],
            "warnings": [text.to_dict() for text in self.warnings],
            "missing": [text.to_dict() for text in self.missing],
        }

    def _amounts(self) -> dict[str, Any]:
        model, spent = self.model, self.elapsed
        ends = dict(zip(("p10", "p50", "p90"), self.total, strict=True)) if self.total else {}
        return {
            "gpus": model.gpus,
            "gpu": model.gpu,
            "price_per_gpu_hour": model.price,
            "currency": model.currency,
            "spent": None if spent is None else model.money(spent),
            "total": {name: model.money(seconds) for name, seconds in ends.items()} or None,
            "gpu_hours_spent": None if spent is None else model.gpu_hours(spent),
            "gpu_hours_total": model.gpu_hours(ends["p50"]) if ends else None,
            "kwh_spent": None if spent is None else model.kwh(spent),
            "kwh_total": model.kwh(ends["p50"]) if ends else None,
            "co2_kg_total": model.co2_kg(ends["p50"]) if ends else None,
            "budget": model.budget,
            "sources": {name: text.to_dict() for name, text in model.sources},
        }


def cost_model(
    segments: Sequence[Segment],
    *,
    gpus: int | None = None,
    gpu: str | None = None,
    price: float | None = None,
    currency: str | None = None,
    watts: float | None = None,
    pue: float | None = None,
    co2_kg_per_kwh: float | None = None,
    storage_per_hour: float = 0.0,
    idle_share: float = 0.0,
    budget: float | None = None,
    table: PriceTable | None = None,
) -> CostModel:
    """Return the cost model of a run: what is given, else what the log prints, else the table; ValueError for nonsense.

    A list price is used only in its own currency: with another `currency` given, the price must be given too.
    """
    table = table or price_table()
    log = hardware(segments)
    kind = table.gpu(gpu or log.gpu)
    listed = table.price(kind)
    if listed is not None and currency not in (None, listed.currency):
        listed = None
    drawn, text = _drawn(segments, watts if watts is not None else log.watts, kind.watts if kind else None)
    sources = {
        "gpus": Text(GIVEN) if gpus is not None else log.gpus_text,
        "gpu": _unknown_gpu(gpu or log.gpu) if kind is None and (gpu or log.gpu) else Text(GIVEN) if gpu else log.gpu_text,
        "price": Text(GIVEN) if price is not None else _listed_price(listed),
        "energy": text or (Text(GIVEN) if watts is not None else log.watts_text),
    }
    return CostModel(
        gpus=gpus if gpus is not None else log.gpus,
        gpu=kind.name if kind else (gpu or log.gpu),
        price=price if price is not None else listed.per_hour if listed else None,
        currency=currency or (listed.currency if listed and price is None else "USD"),
        watts=drawn,
        pue=1.0 if pue is None else pue,
        co2_kg_per_kwh=co2_kg_per_kwh,
        storage_per_hour=storage_per_hour,
        idle_share=idle_share,
        budget=budget,
        peak_tflops=kind.peak_tflops if kind else None,
        sources=tuple(sources.items()),
    )


def _unknown_gpu(gpu: str | None) -> Text:
    return Text(UNKNOWN_GPU, {"gpu": (gpu or "")[:80]})


def _listed_price(listed: Price | None) -> Text:
    if listed is None:
        return Text(NO_PRICE)
    template = N_("list price of {date}, {source} ({kind}): put in what you pay")
    return Text(template, {"date": listed.date, "source": listed.source, "kind": listed.kind})


def _drawn(segments: Sequence[Segment], known: float | None, rated: float | None) -> tuple[float | None, Text | None]:
    """Return the mean watts of one GPU: measured or given, else rated power times utilisation, else rated power."""
    if known is not None or rated is None:
        return known, None
    used = [segment.values("gpu_utilization_percent") for segment in segments if segment.has("gpu_utilization_percent")]
    share = np.concatenate(used) if used else np.zeros(0)
    share = share[np.isfinite(share) & (share >= 0) & (share <= 100)]
    if len(share):
        mean = float(share.mean()) / 100
        return rated * mean, Text(
            N_("estimate: rated {watts:.0f} W × {share:.0%} utilisation"), {"watts": rated, "share": mean}
        )
    return rated, Text(N_("upper estimate: rated {watts:.0f} W all the time"), {"watts": rated})


def cost_report(
    segments: Sequence[Segment],
    model: CostModel,
    *,
    findings: Sequence[Finding] = (),
    meaning: str | None = None,
    total_steps: int | None = None,
    failures: FailureRate | None = None,
) -> CostReport:
    """Return time, amounts and waste of a run; meaning: of epoch_time, as the user chose; total_steps: the plan, if given."""
    epoch = epoch_time(current_launch(segments), meaning) if segments else None
    left = time_left(segments, meaning=meaning, total_steps=total_steps, failures=failures)
    why = None if left else why_unknown(segments, meaning=meaning, total_steps=total_steps)
    book = ledger(segments, findings=findings, meaning=meaning)
    report = CostReport(model, epoch, book, left, why, missing=_missing(model))
    no_use = None if report.over or not segments else of_no_use(current_launch(segments), findings)
    return replace(report, warnings=_warnings(report), of_no_use=no_use, timeless=None if book else _timeless(segments, epoch))


def _timeless(segments: Sequence[Segment], epoch: EpochTime | None) -> Text | None:
    """Say what a log without a time so far lacks; None without a step."""
    if not segments or not len(current_launch(segments)):
        return None
    return epoch.text if epoch is not None and epoch.reading is None else no_time(current_launch(segments))


def _missing(model: CostModel) -> tuple[Text, ...]:
    sources = dict(model.sources)
    names = [name for name, value in (("gpus", model.gpus), ("price", model.price)) if value is None and name in sources]
    unknown = (sources["gpu"],) if "price" in names and sources["gpu"].template == UNKNOWN_GPU else ()
    return (*unknown, *(sources[name] for name in names))


def _warnings(report: CostReport) -> tuple[Text, ...]:
    """Say when the budget is spent, will be passed by the middle, or by the 90th percentile."""
    budget, model = report.model.budget, report.model
    spent = model.money(report.elapsed) if report.elapsed is not None else None
    if budget is None or spent is None:
        return ()
    gaps: dict[str, Any] = {"budget": budget, "currency": model.currency, "spent": spent}
    if spent > budget:
        return (Text(BUDGET_SPENT, gaps),)
    ends = [model.money(seconds) for seconds in report.total] if report.total else []
    if not ends or ends[2] is None or ends[2] <= budget:
        return ()
    gaps |= {"p50": ends[1], "p90": ends[2]}
    return (Text(BUDGET_PASSED if ends[1] is not None and ends[1] > budget else BUDGET_TIGHT, gaps),)


def _left_dict(left: Estimate | None) -> dict[str, Any] | None:
    if left is None:
        return None
    return {
        "p10": left.p10,
        "p50": left.p50,
        "p90": left.p90,
        "if_lasts": left.if_lasts,
        "if_returns": left.if_returns,
        "source": left.source.to_dict(),
    }


def _minutes(epoch: EpochTime | None) -> dict[str, float] | None:
    """Return what a whole epoch takes, without its start-up."""
    return dict(zip(("low", "middle", "high"), epoch.epoch_minutes, strict=True)) if epoch and epoch.epoch_minutes else None


def _item_dict(item: Any, model: CostModel) -> dict[str, Any]:
    return {
        "part": item.name,
        "seconds": item.seconds,
        "share": item.share,
        "gpu_hours": model.gpu_hours(item.seconds),
        "money": model.money(item.seconds),
        "step": item.step,
        "text": item.sentence.to_dict(),
    }

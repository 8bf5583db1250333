"""Before a run starts: how long and how much, from the time of an epoch or from a run that is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.before_launch import KEPT_PER_DOUBLING, Launch, from_epoch, from_golden
from analysis.cost import CostModel, cost_model
from analysis.prices import price_table
from analysis.segment import Segment
from messages import Text
from server.costs import OWN_PRICES, Wishes


@dataclass(frozen=True)
class Plan:
    """What is to be started.

    minutes, epochs: of the way by epochs; else steps like those of a known run, its GPUs and batch, and the new batch.
    """

    minutes: float | None = None
    epochs: float | None = None
    steps: int | None = None
    known_gpus: int | None = None
    batch: float | None = None
    known_batch: float | None = None
    kept: float = KEPT_PER_DOUBLING


def before_launch(
    segments: Sequence[Segment], plan: Plan, wishes: Wishes, *, data_dir: Path | None = None
) -> tuple[Launch | Text | None, CostModel]:
    """Return the estimate (None while the plan says too little, a Text where there is none) and what an hour costs.

    segments: of the known run. Raises ValueError for what can't be, PriceTableError for a broken own price table.
    """
    table = price_table(data_dir / OWN_PRICES if data_dir else None)
    model = cost_model(segments, table=table, **wishes.model)
    if plan.minutes and plan.epochs:
        return from_epoch(plan.minutes, plan.epochs), model
    if not plan.steps:
        return None, model
    found = from_golden(
        segments,
        steps=plan.steps,
        gpus=wishes.gpus,
        golden_gpus=plan.known_gpus,
        batch=plan.batch,
        golden_batch=plan.known_batch,
        kept=plan.kept,
    )
    return found, model

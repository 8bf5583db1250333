"""What all runs cost: from the facts that are kept of each, so that thousands of them are added up at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.cost import CostModel, cost_model
from analysis.prices import price_table
from analysis.siblings import Sibling, slow_siblings
from server.board import Line
from server.costs import OWN_PRICES, Wishes
from server.glance import Facts
from storage.types import Run


@dataclass(frozen=True)
class Paid:
    """A run with what is known of its time, the model of its price, and whether it is far slower than its siblings."""

    run: Run
    facts: Facts
    left: float | None
    model: CostModel
    slow: Sibling | None


def paid(lines: Sequence[Line], wishes: Wishes, data_dir: Path | None) -> list[Paid]:
    """Return the runs whose facts are kept. Raises ValueError for a wish that can't be, PriceTableError for a broken table.

    What `wishes` says of one run (meaning of epoch_time, plan) does not count here.
    """
    table = price_table(data_dir / OWN_PRICES if data_dir else None)
    models: dict[tuple[int | None, str | None], CostModel] = {}
    known = [(line, line.glance.facts) for line in lines if line.glance.facts is not None]
    for _line, facts in known:
        if (facts.gpus, facts.gpu) not in models:
            printed = {"gpus": facts.gpus if wishes.gpus is None else wishes.gpus, "gpu": wishes.gpu or facts.gpu}
            models[facts.gpus, facts.gpu] = cost_model((), table=table, **wishes.model | printed)
    seconds = {line.run.id: facts.step_seconds for line, facts in known if facts.step_seconds is not None}
    slow = slow_siblings(seconds, {line.run.id: line.run.total_steps for line, _facts in known})
    return [
        Paid(
            line.run,
            facts,
            line.glance.left[1] if line.glance.left and not line.glance.no_use else None,
            models[facts.gpus, facts.gpu],
            slow.get(line.run.id),
        )
        for line, facts in known
    ]

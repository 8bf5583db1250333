"""Evaluations that a log prints under the name of a training metric (`loss`): a series of their own, beside that one."""

from collections.abc import Sequence

import pandas as pd

from storage.store import Store
from storage.types import Column
from ui.text import _

_SIGN = "\x1feval"  # behind the name of the metric, in no name that a log can print
ALIKE = ("plan", "progress", "rate", "time", "throughput", "hardware")  # roles whose values do not depend on whose row it is


def apart(store: Store, run_id: str, columns: Sequence[Column]) -> frozenset[str]:
    """Return the metrics that both training and evaluation rows print; none of a metric whose rows are of other kinds too."""
    names = [column.name for column in columns if column.role not in ALIKE]
    trained, evaluated, every = (_counts(store, run_id, names, kind) for kind in ("train", "eval", None))
    return frozenset(name for name in trained.keys() & evaluated.keys() if trained[name] + evaluated[name] == every.get(name))


def _counts(store: Store, run_id: str, names: list[str], kind: str | None) -> dict[str, int]:
    found = store.buckets(run_id, names, x="line", width=1, kind=kind).groupby("metric")["count"].sum()
    return {str(name): int(count) for name, count in found.items()}


def named(buckets: pd.DataFrame) -> pd.DataFrame:
    """Return buckets of evaluation rows under the names of series of their own."""
    return buckets.assign(metric=buckets["metric"].astype(str) + _SIGN)


def is_one(metric: str) -> bool:
    """Say whether a series is that of evaluations."""
    return metric.endswith(_SIGN)


def beside(metrics: Sequence[str], buckets: pd.DataFrame) -> tuple[str, ...]:
    """Return metrics, each followed by the series of its evaluations where buckets have one."""
    there = set(buckets["metric"])
    return tuple(name for metric in metrics for name in (metric, metric + _SIGN) if name == metric or name in there)


def label(metric: str) -> str:
    """Return what a series is called beside its line."""
    return _("eval {metric}").format(metric=metric.removesuffix(_SIGN)) if is_one(metric) else metric

"""The injection lab: a fault put into a run, so that one sees what is found, after how many steps, and what is missed.

An injection changes a copy of a launch from a row on, with what the fault does to all columns that the log prints; a fault
that needs a column which is not there can't be put in, and says so. Nothing is stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.diagnose import Diagnosis, diagnose
from analysis.findings import Finding
from analysis.losses import LOSSES, loss_kind
from analysis.segment import Segment
from messages import N_, Text

MOST_ROWS = 20_000  # of the run: a fault is put into its last ones
FEWEST_ROWS = 200
SINCE = 0.5  # share of the rows at which a fault begins unless asked otherwise
GIB = 2**30

Change = Callable[[pd.DataFrame, int, np.random.Generator], pd.DataFrame]


@dataclass(frozen=True)
class Fault:
    """What can be put into a run. title, does: English messages, its name and what it changes in the log.

    needs: columns of which it needs one, as `a|b`; kinds: classes under which it counts as found; change: (rows, first row,
    random numbers) -> rows.
    """

    title: str
    does: str
    needs: tuple[str, ...]
    kinds: tuple[str, ...]
    change: Change
    shown: str = "loss"  # the column that a chart shows


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a fault. step: where it was put in; segment: the launch with it; found: the finding that names it,
    None if it was missed; delay: steps until that could be said; others: further findings that it brought about.

    why: why it could not be put in, or what would have been needed to find it; empty where it was found.
    told: how it was reported where that is no finding of a rule: a damaged line is the reader's to find.
    """

    name: str
    step: int | None
    segment: Segment | None
    found: Finding | None = None
    delay: int | None = None
    others: tuple[Finding, ...] = ()
    why: tuple[Text, ...] = ()
    told: Text | None = None


def _losses(rows: pd.DataFrame, first: int, factor: np.ndarray | float, last: int | None = None) -> pd.DataFrame:
    """Multiply the main loss; the total stays the sum of its parts, as the log had it."""
    main = "logits_loss" if "logits_loss" in rows else "loss"
    part = slice(first, last)
    before = rows[main].to_numpy(dtype=float).copy()
    after = before.copy()
    after[part] = before[part] * factor
    rows = rows.assign(**{main: after})
    if main != "loss" and "loss" in rows:
        rows = rows.assign(loss=rows["loss"].to_numpy(dtype=float) + after - before)
    return rows


def _times(rows: pd.DataFrame, name: str, first: int, factor: np.ndarray | float, last: int | None = None) -> pd.DataFrame:
    if name not in rows:
        return rows
    values = rows[name].to_numpy(dtype=float).copy()
    values[first:last] = values[first:last] * factor
    return rows.assign(**{name: values})


def _set(rows: pd.DataFrame, name: str, first: int, value: np.ndarray | float, last: int | None = None) -> pd.DataFrame:
    if name not in rows:
        return rows
    values = rows[name].to_numpy(dtype=float).copy()
    values[first:last] = value
    return rows.assign(**{name: values})


def _later(rows: pd.DataFrame, first: int, seconds: np.ndarray | float) -> pd.DataFrame:
    """Shift the clocks of the rows from one on; `seconds` a row or for all."""
    added = np.zeros(len(rows))
    added[first:] = seconds
    for name in ("elapsed_seconds", "time"):
        rows = rows.assign(**{name: rows[name] + added}) if name in rows else rows
    if "timestamp" in rows:
        rows = rows.assign(timestamp=rows["timestamp"] + pd.to_timedelta(np.round(added * 1000), unit="ms").to_numpy())
    return rows


def _usual_seconds(rows: pd.DataFrame) -> float:
    if "step_time_seconds" in rows:
        found = float(np.nanmedian(rows["step_time_seconds"]))
    elif "timestamp" in rows:
        found = float(rows["timestamp"].diff().dt.total_seconds().median())
    else:
        found = float(rows["elapsed_seconds"].diff().median()) if "elapsed_seconds" in rows else 1.0
    return found if np.isfinite(found) and found > 0 else 1.0


def _rate(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    left = len(rows) - first
    rows = _times(rows, "lr", first, 10.0)
    rows = _losses(rows, first, 1 + 0.5 * (1 - np.exp(-np.arange(left) / 5)) + 0.02 * rng.standard_normal(left))
    return _times(rows, "grad_norm", first, 4.0)


def _repeats(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    return _losses(rows, first, 0.6, first + 40)


def _spike(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    rows = _losses(rows, first, np.exp(0.9 * np.exp(-np.arange(min(30, len(rows) - first)) / 6)), first + 30)
    return _times(rows, "grad_norm", first, 8.0, first + 4)


def _lasting(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    return _times(_losses(rows, first, 1.8), "grad_norm", first, 8.0, first + 4)


def _nan(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    for name in (*LOSSES, "grad_norm"):
        rows = _set(rows, name, first, np.nan)
    return rows


def _zero(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    for name in LOSSES:
        rows = _set(rows, name, first, 0.0)
    return _set(rows, "grad_norm", first, np.nan)


def _diverges(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    left = len(rows) - first
    return _losses(rows, first, np.exp(0.7 * np.arange(left) / max(left, 1)))


def _flat(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    """Hold the loss from an eighth of the rows on, far above what was to be learned."""
    main = "logits_loss" if "logits_loss" in rows else "loss"
    start = min(first, len(rows) // 8)
    smooth = np.log(rows[main].clip(lower=1e-9)).rolling(51, center=True, min_periods=1).median().to_numpy()
    return _losses(rows, start, np.exp(smooth[start] - smooth[start:]))


def _swings(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    return _losses(rows, first, np.exp(0.15 * np.sin(2 * np.pi * np.arange(len(rows) - first) / 30)))


def _explodes(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    return _times(rows, "grad_norm", first, 100.0, first + 6)


def _router(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    before = rows["aux_loss"].to_numpy(dtype=float)
    rows = _times(rows, "aux_loss", first, 1 + 2 * np.arange(len(rows) - first) / max(len(rows) - first, 1))
    return rows.assign(loss=rows["loss"] + rows["aux_loss"] - before) if "loss" in rows else rows


def _memory(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    total = float(np.nanmax(rows["memory_total_bytes"])) if "memory_total_bytes" in rows else 80 * GIB
    names = [name for name in ("memory_bytes", "memory_peak_bytes") if name in rows]
    for name in names:
        rows = _set(rows, name, first, total * (0.97 + 0.005 * rng.random(len(rows) - first)))
    return rows if "memory_total_bytes" in rows else rows.assign(memory_total_bytes=total)


def _slow(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    seconds = 0.35 * _usual_seconds(rows)
    rows = _later(rows, first, seconds * np.arange(1, len(rows) - first + 1))
    rows = _times(rows, "step_time_seconds", first, 1.35)
    for name in ("tokens_per_second", "samples_per_second", "steps_per_second"):
        rows = _times(rows, name, first, 1 / 1.35)
    return rows


def _hangs(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    seconds = max(1800.0, 60 * _usual_seconds(rows))
    return _times(_later(rows, first, seconds), "step_time_seconds", first, seconds / _usual_seconds(rows), first + 1)


def _hot(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    return _set(rows, "gpu_temperature_celsius", first, 88 + rng.standard_normal(len(rows) - first))


def _broken(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    """Lose a field from a row on, as when the line is printed by other code."""
    name = next(name for name in ("grad_norm", "lr", "logits_loss") if name in rows)
    return _set(rows, name, first, np.nan)


def _again(rows: pd.DataFrame, first: int, rng: np.random.Generator) -> pd.DataFrame:
    """Cut the run off and go on from a checkpoint before, 15 minutes later: rows are trained again, the loss is worse."""
    lost = min(max(first // 10, 10), first - 1)
    again = rows.iloc[first - lost : len(rows) - lost].reset_index(drop=True)
    again = _losses(again, 0, 1 + 0.25 * np.exp(-np.arange(len(again)) / (0.2 * len(rows))))
    whole = pd.concat([rows.iloc[:first], again], ignore_index=True).assign(line=np.arange(len(rows)) + 1)
    return _later(whole, first, 900.0 + lost * _usual_seconds(rows))


LOSS = ("loss|logits_loss",)
TIME = ("timestamp|elapsed_seconds|step_time_seconds",)
FAULTS: dict[str, Fault] = {
    "lr_x10": Fault(
        N_("Learning rate ×10"),
        N_("lr ten times as high, the loss half as high again, gradients ×4"),
        ("lr", *LOSS),
        ("lr_anomaly",),
        _rate,
    ),
    "repeats": Fault(N_("Repeated samples"), N_("40 rows at 60 % of the loss"), LOSS, ("dip",), _repeats),
    "spike": Fault(N_("Loss spike"), N_("2.5× the loss, gone after 30 rows, gradients ×8"), LOSS, ("spike",), _spike),
    "lasting": Fault(
        N_("Spike that stays"), N_("1.8× the loss to the end"), LOSS, ("spike_unrecovered", "spike", "divergence"), _lasting
    ),
    "nan": Fault(N_("NaN"), N_("loss and gradients NaN to the end"), LOSS, ("non_finite",), _nan),
    "zero": Fault(N_("Loss zero"), N_("loss 0, gradients NaN to the end"), LOSS, ("loss_zero",), _zero),
    "divergence": Fault(N_("Divergence"), N_("the loss rises steadily to twice its level"), LOSS, ("divergence",), _diverges),
    "plateau": Fault(
        N_("Plateau"), N_("the loss holds from an eighth of the rows on"), LOSS, ("plateau", "no_learning"), _flat
    ),
    "oscillation": Fault(N_("Oscillation"), N_("the loss swings by 15 % every 30 rows"), LOSS, ("oscillation",), _swings),
    "explosion": Fault(
        N_("Gradient explosion"),
        N_("gradient norm ×100 for 6 rows"),
        ("grad_norm",),
        ("grad_explosion",),
        _explodes,
        "grad_norm",
    ),
    "router": Fault(
        N_("Experts out of balance"),
        N_("auxiliary loss grows to three times"),
        ("aux_loss",),
        ("aux_imbalance", "aux_share"),
        _router,
        "aux_loss",
    ),
    "memory": Fault(
        N_("Memory pressure"),
        N_("97 % of the GPU memory in use"),
        ("memory_bytes|memory_peak_bytes",),
        ("memory_near_limit",),
        _memory,
        "memory_bytes",
    ),
    "slow_node": Fault(N_("Slow node"), N_("steps take 35 % longer"), TIME, ("slowdown",), _slow, "step_time_seconds"),
    "hang": Fault(
        N_("Hang"), N_("half an hour without a line"), TIME, ("hang", "step_time_spike"), _hangs, "step_time_seconds"
    ),
    "hot": Fault(
        N_("Overheating"),
        N_("88 °C from there on"),
        ("gpu_temperature_celsius",),
        ("temperature_high",),
        _hot,
        "gpu_temperature_celsius",
    ),
    "broken": Fault(
        N_("Broken lines"),
        N_("one field is no longer printed"),
        ("grad_norm|lr|logits_loss",),
        ("field_missing", "format_change"),
        _broken,
    ),
    "resume": Fault(
        N_("Cut off and resumed"),
        N_("a tenth of the rows is trained again after a gap, with a worse loss"),
        LOSS,
        ("restart",),
        _again,
    ),
}


def base(segment: Segment) -> Segment | Text:
    """Return the launch that faults are put into: its last MOST_ROWS rows, in order; or why that can't be."""
    if len(segment) < FEWEST_ROWS or loss_kind(segment).main is None:
        message = N_("It has {rows:,} rows; {needed} with a loss are needed to put a fault into them.")
        return Text(message, {"rows": len(segment), "needed": FEWEST_ROWS})
    start = max(len(segment) - MOST_ROWS, 0)
    rows = segment.rows.iloc[start:].reset_index(drop=True)
    absent = {name: gaps[start:] for name, gaps in segment.absent.items()}
    return replace(segment, number=0, rows=rows, absent=absent)


def inject(segment: Segment, name: str, *, since: float = SINCE, seed: int = 0) -> Segment:
    """Return a launch with a fault from a share of its rows on. Raises KeyError for a fault that is not known."""
    first = min(max(int(since * len(segment)), 1), len(segment) - 2)
    rows = FAULTS[name].change(segment.rows, first, np.random.default_rng(seed))
    absent = dict(segment.absent)
    if name == "broken":
        lost = next(column for column in ("grad_norm", "lr", "logits_loss") if column in segment.rows)
        absent[lost] = np.arange(len(rows)) >= first
    return replace(segment, rows=rows, absent=absent)


def try_one(segment: Segment, calm: Diagnosis, name: str, *, since: float = SINCE, seed: int = 0) -> Outcome:
    """Put a fault into a launch and say what is found that was not there before (`calm`: its own diagnosis)."""
    fault = FAULTS[name]
    missing = [need for need in fault.needs if not any(column in segment.rows for column in need.split("|"))]
    if missing:
        columns = ", ".join(need.split("|")[0] for need in missing)
        return Outcome(name, None, None, why=(Text(N_("The log does not print: {columns}"), {"columns": columns}),))
    first = min(max(int(since * len(segment)), 1), len(segment) - 2)
    sick = inject(segment, name, since=since, seed=seed)
    diagnosis = diagnose([sick], profile=calm.profile)
    fresh = [finding for finding in diagnosis.findings if not _known(finding, calm.findings)]
    begun = sick.step(first if name != "plateau" else min(first, len(segment) // 8)) or 0
    named = [
        finding for finding in fresh if finding.kind in fault.kinds and (finding.known_step or 0) >= begun - _slack(segment)
    ]
    named.sort(key=lambda finding: (fault.kinds.index(finding.kind), finding.known_step or 0))
    if not named:
        return Outcome(name, begun, sick, others=tuple(fresh), why=tuple(_why(fault, diagnosis)))
    delay = max((named[0].known_step or begun) - begun, 0)
    return Outcome(name, begun, sick, named[0], delay, tuple(one for one in fresh if one is not named[0]))


def _slack(segment: Segment) -> float:
    """Return steps before the fault that a finding may name as the moment: five rows."""
    steps = segment.steps()
    return 5 * float(np.median(np.diff(steps))) if len(steps) > 1 else 0.0


def _known(finding: Finding, before: Sequence[Finding]) -> bool:
    """Say whether a finding was there without the fault; that a log ends is no finding about it."""
    if finding.kind == "stopped":
        return True
    return any(
        (one.kind, one.first_step, one.severity) == (finding.kind, finding.first_step, finding.severity) for one in before
    )


def _why(fault: Fault, diagnosis: Diagnosis) -> list[Text]:
    """Return what would have been needed: what the rules that should have spoken could not see."""
    blind = [each.text for each in diagnosis.not_assessable if each.rule in fault.kinds]
    return blind or [Text(N_("The change stays within what is normal for this run, or comes too late to be told."))]


def try_all(segment: Segment, *, since: float = SINCE, seed: int = 0, profile: str = "robust") -> list[Outcome]:
    """Put every fault into a launch, one at a time."""
    calm = diagnose([segment], profile=profile)
    return [try_one(segment, calm, name, since=since, seed=seed) for name in FAULTS]

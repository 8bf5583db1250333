"""May these runs be compared, and as what: one variable or several, by step or by data, in absolute loss or its fall.

Each reason says what it forbids: `refuse` to compare at all, `bar` to compare levels, `step` to compare equal steps, `warn` a
conclusion, `note` nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.compare.conditions import SIX_TITLES, Said, amount, kinds, named, shown
from analysis.compare.config_diff import DIFFERENT, EQUAL, UNKNOWN, ConfigDiff, Row
from analysis.compare.difference import LEAST
from analysis.compare.subject import STEP as STEP_UNIT
from analysis.compare.subject import Subject, one_program
from analysis.losses import LOSSES
from analysis.running_mean import is_running_mean
from messages import N_, Text, listed

REFUSE, BAR, STEP, WARN, NOTE, GOOD = "refuse", "bar", "step", "warn", "note", "good"
LEVELS = (REFUSE, BAR, STEP, WARN, GOOD, NOTE)
DATA_AXES = ("tokens", "samples", "epochs")
STALE = ("gpus", "nodes", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch", "effective_batch", "dataset", "mix")
STALE_BASELINE, OTHER_PROGRAM = "stale_baseline", "other_program"
BATCH_APART = 1.05
MORE = "…"
SEVERAL = 6  # variables that are named
LOSS_TITLES = {
    "loss": N_("the training loss"),
    "logits_loss": N_("the training loss without its auxiliary part"),
    "eval_loss": N_("the evaluation loss"),
}

# Reasons that several runs share, from how many on, and how they are said together.
TOGETHER = {
    OTHER_PROGRAM: (
        3,
        N_(
            "{b} were not written by the program that wrote {a}, and do not say which data and vocabulary they had: what "
            "differs is not known, and only the relative fall of the loss is compared"
        ),
    ),
    "one_sided": (2, N_("{b} and {a}: nothing that both logs show differs, but some show what others do not")),
    "nothing_known": (2, N_("{b} and {a}: no condition is told by both logs, so what differs is not known")),
    "nothing_differs": (2, N_("{b} and {a}: nothing that the logs show differs")),
    "batch": (
        3,
        N_(
            "a step of {b} is not a step of {a} (other {what}): losses at equal steps are not compared; "
            "compare at equal tokens or samples"
        ),
    ),
    "epoch_length": (
        3,
        N_(
            "{b} do not have as many steps an epoch as {a}: another batch or other data, so losses at equal steps are not "
            "compared; compare at equal tokens, samples or passes over the data"
        ),
    ),
    "several_variables": (3, N_("{b} differ from {a} in several variables: not single-variable comparisons")),
    "lr_not_scaled": (3, N_("the effective batch of {b} is not that of {a} and the learning rate is the same ({rate})")),
    "logging_interval": (3, N_("{b} do not log as often as {a}: all are averaged over the same stretches")),
    "other_plan": (3, N_("{b} do not plan as many steps as {a}: the learning rates fall at different times")),
}


@dataclass(frozen=True)
class Reason:
    """Why a comparison is fair or not: a word, what it forbids, the sentence, the runs it is about (ids)."""

    code: str
    level: str
    text: Text
    runs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"code": self.code, "level": self.level, "text": self.text.to_dict(), "runs": list(self.runs)}


@dataclass(frozen=True)
class Fairness:
    """The verdict on fairness.

    single: at most one variable differs between each run and the base. absolute: levels of the loss may be compared.
    by_step: a step is the same amount of data in all runs. reasons: what forbids most first.
    """

    single: bool
    absolute: bool
    by_step: bool
    reasons: tuple[Reason, ...]

    def about(self, *runs: str) -> "Fairness":
        """Return the verdict on some of the runs (ids) alone."""
        reasons = tuple(reason for reason in self.reasons if not reason.runs or set(reason.runs) & set(runs))
        return _concluded(self.single, reasons)

    @property
    def refusal(self) -> Text | None:
        """Return why nothing at all is compared, None where something may be."""
        return next((reason.text for reason in self.reasons if reason.level == REFUSE), None)

    def allows(self, axis: str) -> bool:
        """Say whether runs may be compared at equal values of an axis."""
        return self.by_step or axis != "step"


def fairness(
    subjects: Sequence[Subject],
    said: Sequence[Mapping[str, Said]],
    *,
    pairs: Mapping[int, ConfigDiff],
    whole: ConfigDiff,
    base: int = 0,
    names: Sequence[str] | None = None,
    is_baseline: bool = False,
) -> Fairness:
    """Return what may be said of the runs beside the base.

    pairs: what differs between the base and each other run, by its position; whole: between all. is_baseline: the base was
    saved as one, so it may be stale.
    """
    names = names or [one.name for one in subjects]
    reasons: list[Reason] = []
    single = True
    for other in range(len(subjects)):
        if other == base:
            continue
        pair = pairs[other]
        a, b = subjects[base], subjects[other]
        refused = list(_other_loss(a, b, names[base], names[other]))
        if refused:
            reasons += [Reason(code, level, text, (b.id,)) for code, level, text in refused]
            continue
        strange = list(_programs(pair, a, b, names[base], names[other]))
        single &= len(pair.varied) <= 1 and not strange
        found = strange or list(_variables(pair, names[base], names[other]))
        found += [*_levels(pair, a, b, names[base], names[other])]
        found += _steps(pair, said[base], said[other], names[base], names[other])
        found += _stale(pair) if is_baseline else []
        found += _printing(a, b, names[base], names[other])
        reasons += [Reason(code, level, text, (b.id,)) for code, level, text in found]
    each = zip(subjects, names, strict=True)
    reasons += [Reason(code, level, text, (one.id,)) for one, name in each for code, level, text in _alone(one, name)]
    return _concluded(single, _merged([*reasons, *(_unknown(whole) if len(subjects) > 1 else ())]))


def _concluded(single: bool, reasons: Sequence[Reason]) -> Fairness:
    levels = {reason.level for reason in reasons}
    return Fairness(single, BAR not in levels, STEP not in levels, tuple(sorted(reasons, key=_order)))


def _order(reason: Reason) -> int:
    return LEVELS.index(reason.level)


def _merged(reasons: Sequence[Reason]) -> list[Reason]:
    """Join reasons that say the same of several runs."""
    for code, (least, template) in TOGETHER.items():
        alike = [reason for reason in reasons if reason.code == code]
        if len(alike) >= least:
            names = [str(reason.text.values["b"]) for reason in alike]
            gaps = {**alike[0].text.values, "b": ", ".join(names[:12]) + (" …" if len(names) > 12 else "")}
            runs = tuple(run for one in alike for run in one.runs)
            joined = Reason(code, alike[0].level, Text(template, gaps), runs)
            reasons = [joined, *(reason for reason in reasons if reason.code != code)]
    found: dict[str, Reason] = {}
    for reason in reasons:
        key = f"{reason.code}{reason.text.render()}"
        before = found.get(key)
        found[key] = Reason(reason.code, reason.level, reason.text, (*(before.runs if before else ()), *reason.runs))
    return list(found.values())


Found = Iterator[tuple[str, str, Text]]


def _variables(pair: ConfigDiff, a: str, b: str) -> Found:
    varied = pair.varied
    if not varied:
        yield _nothing(pair, a, b)
    elif len(varied) == 1:
        gaps = {"a": a, "b": b, "what": title_of(varied[0]), **_values(varied[0])}
        yield "one_variable", GOOD, Text(N_("{b}: {what} is what differs from {a}: {old} → {new}"), gaps)
    else:
        more = [Text(MORE)] if len(varied) > SEVERAL else []
        what = listed([*(title_of(row) for row in varied[:SEVERAL]), *more])
        gaps = {"a": a, "b": b, "count": pair.variables, "what": what}
        template = N_("{b} differs from {a} in {count:,} variables ({what}): not a single-variable comparison")
        yield "several_variables", WARN, Text(template, gaps)


def _nothing(pair: ConfigDiff, a: str, b: str) -> tuple[str, str, Text]:
    """Return what is said of runs between which no difference is known: which is no proof that there is none."""
    gaps: dict[str, Any] = {"a": a, "b": b}
    partly = [row for row in pair.rows if row.status == UNKNOWN and not row.neutral]
    if not any(row.status == EQUAL for row in pair.rows) and not pair.equal:
        return (
            "nothing_known",
            NOTE,
            Text(N_("{b} and {a}: no condition is told by both logs, so what differs is not known"), gaps),
        )
    if partly:
        more = [Text(MORE)] if len(partly) > SEVERAL else []
        gaps["what"] = listed([*(title_of(row) for row in partly[:SEVERAL]), *more])
        return "one_sided", NOTE, Text(N_("{b} and {a}: nothing that both logs show differs; one alone shows {what}"), gaps)
    return "nothing_differs", NOTE, Text(N_("{b} and {a}: nothing that the logs show differs"), gaps)


def _programs(pair: ConfigDiff, a: Subject, b: Subject, name_a: str, name_b: str) -> Found:
    """What other programs leave unsaid is seldom equal: then neither a cause nor a level can be told."""
    said = [pair.row(name) for name in ("dataset", "vocabulary")]
    if one_program(a, b) or not any(row is None or row.status == UNKNOWN for row in said):
        return
    gaps: dict[str, Any] = {"a": name_a, "b": name_b}
    if not a.program and not b.program:
        template = N_(
            "{b} and {a} do not print the same things, so different programs wrote them, and they do not say which data and "
            "vocabulary they had: what differs is not known, and only the relative fall of the loss is compared"
        )
    else:
        old, new = (one.program or Text(N_("a program that its log does not name")) for one in (a, b))
        gaps |= {"old": old, "new": new}
        template = N_(
            "{b} ({new}) and {a} ({old}) were written by different programs and do not say which data and vocabulary they had: "
            "what differs is not known, and only the relative fall of the loss is compared"
        )
    yield OTHER_PROGRAM, BAR, Text(template, gaps)


def title_of(row: Row) -> Text:
    """Return what a row is called, to be translated where it is a condition of the table."""
    return named(row.title, row.key)


def _values(row: Row) -> dict[str, Any]:
    return {"old": shown(row.values[0]), "new": shown(row.values[1])}


def _levels(pair: ConfigDiff, a: Subject, b: Subject, name_a: str, name_b: str) -> Found:
    for row in pair.rows:
        if row.known and row.status == DIFFERENT and kinds()[row.key].bars == "absolute":
            gaps = {"what": title_of(row), "b": name_b, "a": name_a, **_values(row)}
            template = N_(
                "{b} and {a} differ in {what} ({new}, {old}): the level of the loss means something else, "
                "so only its relative fall is compared"
            )
            yield f"differs_{row.key}", BAR, Text(template, gaps)
    if (a.main is None) != (b.main is None):
        name, without = (name_a, a) if a.main is None else (name_b, b)
        template = N_("{a} prints no finite loss") if without.bad.keys() & set(LOSSES[:2]) else N_("{a} prints no loss")
        yield "no_loss", BAR, Text(template, {"a": name})
    elif _aux(a) != _aux(b) and "logits_loss" not in (set(a.curves) & set(b.curves)):
        gaps = {"a": name_a if _aux(a) else name_b}
        yield "aux_loss", BAR, Text(N_("the loss of {a} is a total with an auxiliary loss, that of the other is not"), gaps)
    if _averaged(a) != _averaged(b):
        gaps = {"a": name_a if _averaged(a) else name_b}
        template = N_("{a} prints the mean since the start of the epoch, the other single values: levels do not compare")
        yield "window_average", BAR, Text(template, gaps)


def _other_loss(a: Subject, b: Subject, name_a: str, name_b: str) -> Found:
    if a.main and b.main and not _shared_loss(a, b):
        gaps = {"a": name_a, "b": name_b, "old": Text(LOSS_TITLES[a.main]), "new": Text(LOSS_TITLES[b.main])}
        template = N_("{b} prints another kind of loss ({new}) than {a} ({old}): the two are not compared")
        yield "another_loss", REFUSE, Text(template, gaps)


def _shared_loss(a: Subject, b: Subject) -> bool:
    """Say whether two runs print a loss of the same kind, more often than a lone value at the end."""
    often = [min(LEAST, len(one.curves[one.main or ""])) for one in (a, b)]
    return any(len(a.curves.get(name, ())) >= often[0] and len(b.curves.get(name, ())) >= often[1] for name in LOSS_TITLES)


def _aux(subject: Subject) -> bool:
    curve = subject.curves.get("aux_loss")
    return curve is not None and bool(np.any(curve.value != 0))


def _averaged(subject: Subject) -> bool:
    return subject.main is not None and is_running_mean(subject.segment, subject.main)


def _steps(pair: ConfigDiff, a: Mapping[str, Said], b: Mapping[str, Said], name_a: str, name_b: str) -> Found:
    ratio, row = batch_ratio(pair)
    if row is None or ratio is None or 1 / BATCH_APART < ratio < BATCH_APART:
        return
    gaps: dict[str, Any]
    if row.key == "steps_per_epoch":
        gaps = {"a": name_a, "b": name_b, **dict(zip(("old", "new"), (amount(value) for value in row.values), strict=True))}
        template = N_(
            "{b} and {a}: steps an epoch {new:,.0f}, there {old:,.0f}: another batch or other data, so losses at equal steps "
            "are not compared; compare at equal tokens, samples or passes over the data"
        )
        yield "epoch_length", STEP, Text(template, gaps)
        return
    gaps = {"a": name_a, "b": name_b, "what": title_of(row), **_values(row)}
    template = N_(
        "a step of {b} is not a step of {a} ({what} {new}, there {old}): losses at equal steps are not compared; "
        "compare at equal tokens or samples"
    )
    yield "batch", STEP, Text(template, gaps)
    rates = [amount(said["lr"].value) if "lr" in said else None for said in (a, b)]
    if rates[0] and rates[1] and abs(rates[0] / rates[1] - 1) < 0.01:
        gaps = {"a": name_a, "b": name_b, "ratio": float(f"{ratio:.3g}"), "rate": rates[0]}
        template = N_("the effective batch of {b} is {ratio}× that of {a} and the learning rate is the same ({rate})")
        yield "lr_not_scaled", WARN, Text(template, gaps)


def batch_ratio(pair: ConfigDiff) -> tuple[float | None, Row | None]:
    """Return the effective batch of the second run over that of the first, and the condition that tells it.

    On the same data, steps an epoch go with one over the batch: where no log tells the data, it may be these that differ.
    """
    row = pair.row("effective_batch")
    sizes = [amount(value) for value in row.values] if row and None not in row.values else [None, None]
    if sizes[0] and sizes[1]:
        return sizes[1] / sizes[0], row
    row = pair.row("steps_per_epoch")
    data = [pair.row(name) for name in ("dataset", "examples", "tokens")]
    other_data = any(one is not None and one.status == DIFFERENT for one in data)
    sizes = [amount(value) for value in row.values] if row and None not in row.values else [None, None]
    return (sizes[0] / sizes[1], row) if sizes[0] and sizes[1] and not other_data else (None, None)


def _stale(pair: ConfigDiff) -> Found:
    changed = [row for row in pair.rows if row.status == DIFFERENT and row.known and row.key in STALE]
    changed += [row for row in pair.varied if row.six == "parallel" and not row.known]
    if changed:
        gaps = {"what": listed({row.key: title_of(row) for row in changed}.values())}
        template = N_("the baseline is stale: it was made under other conditions ({what}); make a new one for these")
        yield STALE_BASELINE, WARN, Text(template, gaps)


def _printing(a: Subject, b: Subject, name_a: str, name_b: str) -> Found:
    every = [_interval(one) for one in (a, b)]
    if every[0] and every[1] and max(every) >= 1.5 * min(every):  # type: ignore[type-var,operator]
        gaps = {"a": name_a, "b": name_b, "old": round(every[0]), "new": round(every[1])}
        template = N_("steps between two lines: {b} {new}, {a} {old}; both are averaged over the same stretches")
        yield "logging_interval", NOTE, Text(template, gaps)
    if a.segment.total_steps and b.segment.total_steps and a.segment.total_steps != b.segment.total_steps:
        shapes = [one.schedule.shape if one.schedule else "" for one in (a, b)]
        if any(shape in ("cosine", "linear", "wsd") for shape in shapes):
            gaps = {"a": name_a, "b": name_b, "old": a.segment.total_steps, "new": b.segment.total_steps}
            template = N_("{b} plans {new:,} steps, {a} {old:,}: the learning rates fall at different times")
            yield "other_plan", NOTE, Text(template, gaps)


def _interval(subject: Subject) -> float | None:
    curve = subject.curves.get(subject.main or "")
    if curve is None or subject.unit != STEP_UNIT or len(curve) < 2 or curve.count.sum() <= 0:
        return None
    return float((curve.step[-1] - curve.step[0]) / max(curve.count.sum() - 1, 1))


def _alone(one: Subject, name: str) -> Found:
    gaps: dict[str, Any] = {"a": name}
    if one.no_level is not None:
        yield "no_level", BAR, Text(N_("{a}: {why}"), {**gaps, "why": one.no_level})
    if one.growing:
        yield "growing", NOTE, Text(N_("{a} is still growing: what is said here holds for its steps so far"), gaps)
    if one.launches > 1:
        gaps["count"] = one.launches
        yield "stitched", NOTE, Text(N_("{a} has {count} launches: what a later one did again replaces the earlier"), gaps)


def _unknown(diff: ConfigDiff) -> list[Reason]:
    classes = [SIX_TITLES[name] for name, (status, _names) in diff.six.items() if status == UNKNOWN]
    if not classes:
        return []
    what = listed(Text(title) for title in classes)
    return [Reason("unknown", NOTE, Text(N_("not known from the logs, so perhaps different: {what}"), {"what": what}))]

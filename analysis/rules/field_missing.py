"""A field is no longer printed.

Meaning: A metric that nearly every line had is gone from some line on. Whatever is judged by it is blind from there: the
rules concerned are listed. Training itself may be well.

Causes: A script that was changed or restarted with other logging options, a line cut to a maximum length, another process
whose lines are shorter, or a value that could not be computed.

What to do: Print the field again. Until then do not take silence for health: the rules named here see nothing.

Source: the source articles' point that a missing field makes problems undecidable; 20 of 25 rows after a cover of 90 %.
"""

from collections.abc import Iterator
from itertools import groupby

from analysis.attribution import explain
from analysis.columns_printed import Turn, changes_form, turns
from analysis.evidence import fact, finding_at, where
from analysis.findings import Evidence, Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("step|loss|line",)
SHOWN = 6
JUDGED = frozenset(
    {
        *("loss", "logits_loss", "aux_loss", "lr", "grad_norm", "loss_scale", "step_time_seconds", "tokens_per_second"),
        *("samples_per_second", "epoch_time_minutes", "memory_bytes", "gpu_utilization_percent", "gpu_temperature_celsius"),
        *("reward", "kl", "entropy", "response_length", "policy_loss", "eval_loss", "mfu_percent", "timestamp"),
    }
)


def check(segment: Segment) -> Iterator[Finding]:
    """Yield one finding for all metrics that vanished at the same row."""
    vanished = [turn for turn in turns(segment) if turn.vanished]
    for _, group in groupby(vanished, key=lambda turn: turn.known):
        gone = list(group)
        if not changes_form(gone):
            yield _finding(segment, gone)


def blind_rules(columns: set[str]) -> list[str]:
    """Return the rules that can't be applied without these columns, by name."""
    from analysis.registry import all_rules  # the registry reads this module

    found = []
    for rule in all_rules():
        needs = [set(need.split("|")) for need in rule.needs]
        if any(need & columns and not need - columns for need in needs):
            found.append(rule.name)
    return found


def _finding(segment: Segment, group: list[Turn]) -> Finding:
    first, known = min(turn.first for turn in group), group[0].known
    names = sorted((turn.column for turn in group), key=lambda name: (name not in JUDGED, name))
    back = None if any(turn.back is None for turn in group) else max(turn.back or 0 for turn in group)
    last = len(segment) - 1 if back is None else back
    causes, advice = explain(segment, "field_missing", first, known=known)
    shown = ", ".join(names[:SHOWN]) + (f" (+{len(names) - SHOWN})" if len(names) > SHOWN else "")
    gaps = {"names": shown, "step": where(segment, first), "end": where(segment, last)}
    title = Text(N_("No longer printed since {step}: {names}"), gaps)
    if back is not None:
        title = Text(N_("Not printed from {step} to {end}: {names}"), gaps)
    return finding_at(
        segment,
        kind="field_missing",
        severity=Severity.WARNING if back is None and JUDGED & set(names) else Severity.INFO,
        first=first,
        known=known,
        end=back,
        title=title,
        evidence=tuple(_evidence(segment, names, first)),
        causes=causes,
        advice=advice,
    )


def _evidence(segment: Segment, names: list[str], first: int) -> Iterator[Evidence]:
    yield fact(N_("fields that vanished"), ", ".join(names[:20]), segment=segment, row=first)
    blind = blind_rules(set(names))
    yield Evidence(Text(N_("rules that are blind from here on")), ", ".join(blind) if blind else "–")


def sick() -> Segment:
    """Return a run that stops printing its gradient norm."""
    from dataclasses import replace

    import numpy as np

    from analysis.simulate import simulate

    segment = simulate(rows=400, seed=23).segment
    gaps = np.arange(400) >= 250
    segment.rows.loc[gaps, "grad_norm"] = np.nan
    return replace(segment, absent={"grad_norm": gaps})


def well() -> Segment:
    """Return a run that prints its loss in two of three lines."""
    from analysis.simulate import simulate

    return simulate(rows=400, seed=23, kind="sparse_loss").segment

"""An auxiliary (routing) loss where there should be none.

Meaning: A dense model has no router, so its auxiliary loss is zero at every step. If it is declared dense and the loss is
not zero, configuration and implementation do not match, and the run is not the one that was meant. If nothing is declared,
the loss only shows that a model with routed experts is trained: that is noted, to be confirmed.

Causes: A configuration that is not the one that is used, a switch with another name, or a term of another kind that is
logged under this name.

What to do: Compare the configuration with the model that is built (number of experts, routing), and correct whichever is
wrong before judging the run.

Source: the meaning of the field in the source articles: in a dense structure it is always zero.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from analysis.attribution import explain
from analysis.evidence import fact, where
from analysis.findings import Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("aux_loss",)
SWITCHES = ("use_moe", "moe", "is_moe", "enable_moe")
COUNTS = ("num_experts", "n_routed_experts", "num_local_experts", "n_experts", "moe_num_experts", "num_moe_experts")


def check(segment: Segment, *, rows: int = 10, least: float = 0.0) -> Iterator[Finding]:
    """Yield a launch whose auxiliary loss is not zero although it is declared dense, or is not declared at all.

    rows: with an auxiliary loss above `least`, in a row.
    """
    positions = np.flatnonzero(np.isfinite(segment.values("aux_loss")))
    above = segment.values("aux_loss")[positions] > least
    edges = np.diff(np.r_[0, above.view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    long = np.flatnonzero(ends - starts >= rows)
    declared = routed(segment.config)
    if not len(long) or declared is True:
        return
    first, last = int(starts[long[0]]), int(ends[long[0]]) - 1
    yield _finding(segment, positions, (first, first + rows - 1, last), dense=declared is False)


def routed(config: Mapping[str, Any]) -> bool | None:
    """Say whether the log's configuration declares routed experts, None where it does not speak of them."""
    for key, value in config.items():
        name = str(key).replace("/", ".").rpartition(".")[2].replace("-", "_").lower()
        word = str(value).strip().lower()
        if name in SWITCHES and word in ("true", "false", "1", "0"):
            return word in ("true", "1")
        if name in COUNTS and word.isdigit():
            return int(word) > 1
    return None


def _finding(segment: Segment, rows: np.ndarray, at: tuple[int, int, int], *, dense: bool) -> Finding:
    row, known, last = (int(rows[place]) for place in at)
    causes, advice = explain(segment, "dense_aux", row, known=known)
    level = float(np.median(segment.values("aux_loss")[rows[at[0] : at[1] + 1]]))
    gaps = {"level": level, "step": where(segment, row)}
    title = Text(N_("An auxiliary loss is printed ({level:.3g}): a model with routed experts? Please confirm"), gaps)
    if dense:
        title = Text(N_("Declared dense, but the auxiliary loss is {level:.3g} since {step}"), gaps)
    goes_on = at[2] == len(rows) - 1
    return Finding(
        kind="dense_aux",
        severity=Severity.CRITICAL if dense else Severity.INFO,
        segment=segment.number,
        first_step=segment.step(row),
        last_step=None if goes_on else segment.step(last),
        known_step=segment.step(known),
        first_line=segment.line(row),
        last_line=segment.line(last),
        title=title,
        evidence=(fact(N_("{column}: median of these rows"), level, segment=segment, row=row, column="aux_loss"),),
        causes=causes,
        advice=advice,
    )


def partly(segment: Segment) -> tuple[tuple[str, ...], Text] | None:
    """Say that without a declared structure a mismatch can't be told."""
    if routed(segment.config) is not None:
        return None
    return ("use_moe",), Text(N_("The log does not say whether the model has routed experts"))


def sick() -> Segment:
    """Return a run that is declared dense and prints an auxiliary loss."""
    from dataclasses import replace

    from analysis.simulate import simulate

    return replace(simulate(rows=300, seed=20, kind="moe").segment, config={"use_moe": "False"})


def well() -> Segment:
    """Return a run that is declared to have experts."""
    from dataclasses import replace

    from analysis.simulate import simulate

    return replace(simulate(rows=300, seed=20, kind="moe").segment, config={"use_moe": "True"})

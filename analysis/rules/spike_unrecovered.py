"""The loss jumped and has not come back.

Meaning: After the jump the run stays at a worse level: what it had learned is partly lost, and more training of the same
kind rarely repairs it.

Causes: A learning rate that rose or is too high, a gradient explosion, a resume that did not restore the optimizer or the
data position, or a lasting change of the data.

What to do: Stop, check gradient clipping, restart from a checkpoint about 100 steps before the jump and skip the next 200
to 500 batches. If it jumps again: lower the learning rate, add QK-norm, Adam eps 1e-8, beta2 0.95.

Source: the restart-and-skip practice of PaLM and OPT; the lasting spikes of K2 and Marin.
"""

from collections.abc import Iterator

from analysis.attribution import explain
from analysis.belonging import at_restart
from analysis.clues import stage_changed
from analysis.episodes import Episode, Limits, episodes, jumps_by_ratio
from analysis.evidence import finding_at, median_fact, where
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import track
from analysis.rules.spike import jump_evidence
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 41


def check(segment: Segment, *, patience_rows: int = Limits.patience, patience_share: float = Limits.share) -> Iterator[Finding]:
    """Yield each jump that lasts.

    patience_rows, patience_share: a jump is judged max(patience_rows, share of the rows before it) rows later; near the
    start of a run after as many rows as came before it, at least 16.
    """
    main = loss_kind(segment).main
    limits = Limits(patience=patience_rows, share=patience_share)
    for episode in episodes(segment, main, limits) if main else ():
        if episode.lasting is not None and main and not at_restart(segment, main, episode):
            yield _finding(segment, main, episode, episode.lasting)


def check_articles(
    segment: Segment, *, critical_ratio: float = 10.0, local_rows: int = 20, window_rows: int = 200
) -> Iterator[Finding]:
    """Yield each collapse: the loss grew to critical_ratio times the median of local_rows rows before, or more, and has not
    come back (below half of the ratio) within window_rows rows."""
    main = loss_kind(segment).main
    for jump in jumps_by_ratio(segment, main, critical_ratio, local_rows, window_rows) if main else ():
        if jump.lasting is not None:
            yield _finding(segment, main or "loss", jump, jump.lasting)


def _finding(segment: Segment, column: str, episode: Episode, judged: int) -> Finding:
    loss = track(segment, column)
    row, known = int(loss.rows[episode.first]), int(loss.rows[judged])
    end = None if episode.back is None else int(loss.rows[episode.back])
    causes, advice = explain(segment, "spike_unrecovered", row)
    gaps = {"ratio": episode.ratio(loss), "step": where(segment, row), "rows": judged - episode.first}
    title = Text(N_("Loss jumped {ratio:.3g}× at {step} and has not come back"), gaps)
    if end is not None:
        title = Text(
            N_("Loss jumped {ratio:.3g}× at {step} and came back only by {end}"),
            gaps | {"end": where(segment, end)},
        )
    return finding_at(
        segment,
        kind="spike_unrecovered",
        severity=_severity(segment, row, back=end is not None),
        first=row,
        known=known,
        end=end,
        title=title,
        evidence=(
            *jump_evidence(segment, column, episode),
            median_fact(N_("{column}: level now"), segment, loss, (max(len(loss) - 50, episode.first), len(loss)), column),
        ),
        causes=causes,
        advice=advice,
    )


def _severity(segment: Segment, row: int, *, back: bool) -> Severity:
    """Another stage of the data or another batch size explains another level."""
    if stage_changed(segment, row):
        return Severity.INFO
    return Severity.WARNING if back else Severity.CRITICAL


def sick() -> Segment:
    """Return a run whose loss jumps and stays up."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=6, fault="spike_unrecovered", at=0.4).segment


def well() -> Segment:
    """Return a run with a spike that recovers."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=5, fault="spike").segment

"""The loss jumped and came back.

Meaning: One or a few steps went wrong and the run found back to its old level. A single recovered spike costs little;
many, or spikes that take longer each time, announce instability. A lone raised row that is gone at the next is a hard
batch and is only noted.

Causes: A hard or dirty batch, a gradient explosion that clipping did not stop, a learning rate near the limit, a resume
without the optimizer's state, or an fp16 overflow.

What to do: Nothing if it recovered: note the batch of that step. If it has not come back yet, pause and check gradient
clipping. If spikes repeat, lower the learning rate, clip harder, or add QK-norm.

Source: reports of large pretraining runs (PaLM, OPT, BLOOM, K2, Marin); criterion in the run's own noise.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from analysis.attribution import FIRST, explain
from analysis.belonging import at_restart, in_step, in_swing
from analysis.clues import stage_changed
from analysis.episodes import MOST, Episode, Limits, episodes, jumps_by_ratio, reaches
from analysis.evidence import fact, finding_at, unlog, where
from analysis.findings import Cause, Evidence, Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.running_mean import is_running_mean, undone
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 25
LONE_RATIO = 2.0
HUGE_RATIO = 10.0  # a jump of this size that does not come back at the next row is no spike to wait for


def check(
    segment: Segment,
    *,
    two_of_four: float = Limits.two,
    single: float = Limits.one,
    least_effect: float = Limits.effect,
    least_of_first: float = Limits.floor,
) -> Iterator[Finding]:
    """Yield each jump of the loss that came back or has not had the time to.

    two_of_four, single: robust standard deviations; least_effect: rise as a share of the level; least_of_first: as a
    share of the first loss.
    """
    limits = Limits(two=two_of_four, one=single, effect=least_effect, floor=least_of_first)
    main = loss_kind(segment).main
    if main is None:
        return
    every = [(main, episode) for episode in episodes(segment, main, limits)]
    planned = [episode for _, episode in every if at_restart(segment, main, episode)]
    found = [(main, episode) for _, episode in every if episode not in planned]
    if main != "loss" and segment.has("loss") and segment.has("aux_loss") and np.nanmax(segment.values("aux_loss")) > 0:
        found += _only_in_total(segment, main, found, limits)
    if planned:
        yield _planned(segment, main, planned)
    shown = 0
    for column, episode in sorted(found, key=lambda item: item[1].first):
        if episode.lasting is None and shown < MOST and not _is_other(segment, column, episode):
            shown += 1
            yield _finding(segment, column, episode)


def _is_other(segment: Segment, column: str, episode: Episode) -> bool:
    """Say whether a jump belongs to a swing, or is a step of the level: other rules tell these."""
    height = track(segment, column).x[episode.peak] - episode.level
    return in_swing(segment, column, episode.first, height) or in_step(segment, column, episode)


def check_articles(
    segment: Segment, *, critical_ratio: float = 10.0, warning_ratio: float = 3.0, local_rows: int = 20, window_rows: int = 200
) -> Iterator[Finding]:
    """Yield each sudden growth of the loss that came back, or has not had the time to.

    critical_ratio, warning_ratio: at least so many times the median of local_rows rows before; window_rows: in which it
    must come back (below half of the ratio) to be a recovered spike.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    for jump in jumps_by_ratio(segment, main, warning_ratio, local_rows, window_rows):
        high = reaches(jump.ratio(loss), critical_ratio)
        if jump.lasting is None or not high:
            found = _finding(segment, main, replace(jump, lasting=None))
            severe = Severity.CRITICAL if high and jump.back is None else Severity.WARNING
            yield replace(found, severity=severe, title=_recovered(segment, loss, jump) or found.title)


def _recovered(segment: Segment, loss: Track, jump: Episode) -> Text | None:
    if jump.back is None:
        return None
    first, end = (where(segment, int(loss.rows[at])) for at in (jump.first, jump.back))
    gaps = {"ratio": jump.ratio(loss), "step": first, "end": end}
    return Text(N_("Recovered spike: loss jumped {ratio:.3g}× at {step} and was back by {end}"), gaps)


def _only_in_total(
    segment: Segment, main: str, found: list[tuple[str, Episode]], limits: Limits
) -> Iterator[tuple[str, Episode]]:
    """Yield jumps of the total that the main loss does not show: the auxiliary loss moved."""
    rows = np.array([track(segment, main).rows[episode.first] for _, episode in found])
    total = track(segment, "loss")
    for episode in episodes(segment, "loss", limits):
        if not len(rows) or np.abs(rows - total.rows[episode.first]).min() > 5:
            yield "loss", episode


def _finding(segment: Segment, column: str, episode: Episode) -> Finding:
    loss = track(segment, column)
    row = int(loss.rows[episode.first])
    causes, advice = explain(segment, "spike", row)
    end = None if episode.back is None else int(loss.rows[episode.back - 1])
    return finding_at(
        segment,
        kind="spike",
        severity=_severity(segment, loss, episode),
        first=row,
        known=int(loss.rows[episode.known]),
        end=end,
        title=_title(segment, loss, episode),
        evidence=tuple(jump_evidence(segment, column, episode)),
        causes=causes,
        advice=_fitting(advice, episode, causes),
    )


def _planned(segment: Segment, column: str, jumps: list[Episode]) -> Finding:
    """Return the note about all jumps that belong to warm restarts of the learning rate."""
    loss, last = track(segment, column), jumps[-1]
    row, end = int(loss.rows[jumps[0].first]), len(loss) - 1 if last.back is None else last.back
    highest = max(jumps, key=lambda jump: jump.ratio(loss))
    causes, advice = explain(segment, "warm_restart", row, known=int(loss.rows[jumps[0].known]))
    gaps = {"ratio": highest.ratio(loss), "count": len(jumps), "step": where(segment, row)}
    text = N_(
        "Loss rises up to {ratio:.3g}× with warm restarts of the learning rate ({count} so far, the first at {step}): "
        "this belongs to the schedule"
    )
    return finding_at(
        segment,
        kind="spike",
        severity=Severity.INFO,
        first=row,
        known=int(loss.rows[jumps[0].known]),
        end=int(loss.rows[end]),
        title=Text(text, gaps),
        evidence=tuple(jump_evidence(segment, column, highest)),
        causes=causes,
        advice=advice,
    )


def _fitting(advice: tuple[Text, ...], episode: Episode, causes: tuple[Cause, ...]) -> tuple[Text, ...]:
    """Return the advice, of a jump that came back without what is for any jump where a cause is named that needs its own."""
    named = bool(causes) and causes[0].score > 0 and causes[0].name not in ("data", "gradients")
    return (
        tuple(text for text in advice if text.template not in FIRST["spike"]) if named and episode.back is not None else advice
    )


def _severity(segment: Segment, loss: Track, episode: Episode) -> Severity:
    """A lone row is only noted if it is within the run's tails, or below twice its level without gradients to match; so is
    a first step that settles, and what comes with a change of the data or of the batch."""
    if episode.back is None and episode.ratio(loss) >= HUGE_RATIO and len(loss) > episode.known + 1:
        return Severity.CRITICAL
    if stage_changed(segment, int(loss.rows[episode.first])):
        return Severity.INFO
    ordinary = not episode.beyond or (episode.ratio(loss) < LONE_RATIO and not episode.supported)
    settled = episode.early and episode.back is not None and episode.first < 2
    return Severity.INFO if (episode.lone and ordinary) or settled else Severity.WARNING


def _title(segment: Segment, loss: Track, episode: Episode) -> Text:
    first, peak = (where(segment, int(loss.rows[at])) for at in (episode.first, episode.peak))
    gaps = {"ratio": episode.ratio(loss), "step": first, "peak": peak}
    if episode.back is None and peak != first:
        return Text(N_("Loss jumped {ratio:.3g}× from {step} to {peak} and has not come back yet"), gaps)
    if episode.back is None:
        return Text(N_("Loss jumped {ratio:.3g}× at {step} and has not come back yet"), gaps)
    if episode.lone and episode.back == episode.first + 1:
        return Text(N_("One raised row at {step}: loss {ratio:.3g}× its level, normal again at the next"), gaps)
    gaps["end"] = where(segment, int(loss.rows[episode.back]))
    if peak != first:
        return Text(N_("Loss jumped {ratio:.3g}× from {step} to {peak} and was back by {end}"), gaps)
    return Text(N_("Loss jumped {ratio:.3g}× at {step} and was back by {end}"), gaps)


def jump_evidence(segment: Segment, column: str, episode: Episode) -> Iterator[Evidence]:
    """Yield the numbers of a jump: level before, peak, how unusual, how long, and what the other columns did there."""
    loss = track(segment, column)
    peak = int(loss.rows[episode.peak])
    yield fact(N_("{column}: level expected from the rows before"), unlog(episode.level), column=column)
    yield fact(N_("{column}: peak"), float(undone(segment, column)[peak]), segment=segment, row=peak, column=column)
    if not episode.early:
        z = float((loss.x[episode.peak] - episode.level) / episode.scale)
        yield fact(N_("rise in standard deviations of the run's own noise"), round(z, 1))
    if is_running_mean(segment, column):
        yield fact(
            N_("{column} is printed as a mean since the start of the epoch; judged on"),
            N_("the values behind it"),
            column=column,
        )
    end = len(loss) if episode.back is None else episode.back
    yield fact(N_("rows above the old level"), int(end - episode.first))
    for name in ("logits_loss", "aux_loss", "grad_norm", "lr"):
        if name != column and segment.has(name):
            yield fact(N_("{column} at the peak"), float(segment.values(name)[peak]), segment=segment, row=peak, column=name)


def sick() -> Segment:
    """Return a run with one spike that recovers."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=5, fault="spike").segment


def well() -> Segment:
    """Return a noisy run with heavy tails: raised rows, no spike."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=5, kind="small_batch").segment

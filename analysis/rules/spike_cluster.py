"""Spikes of the loss follow each other.

Meaning: One spike that recovers is an accident, several in a short stretch are a property of the run: each costs steps, and
sooner or later one of them does not come back. Lone hard batches do not count.

Causes: A learning rate at the edge of stability, attention logits that grow without bound, an optimizer whose second moment
forgets too slowly or too fast, an initialisation that is too large, or a damaged stretch of data.

What to do: Do not skip batches again and again. Lower the learning rate, clip harder, add QK-norm or a z-loss, set Adam's
eps to 1e-8 and beta2 to 0.95; if all spikes lie in one shard, look at that shard.

Source: reports of large pretraining runs in which a twentieth of the steps was lost to spikes until the model was changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.attribution import explain
from analysis.belonging import at_restart
from analysis.episodes import Episode, Limits, episodes
from analysis.evidence import fact, where
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 60
LONE_RATIO = 2.0  # of a lone row that counts although nothing went with it


@dataclass(frozen=True)
class Cluster:
    """Spikes close together: positions in the track; `last` is the end of the last of them."""

    first: int
    known: int
    last: int
    count: int
    lost: int


def check(
    segment: Segment, *, least_spikes: int = 3, window_rows: int = 200, window_share: float = 0.05, lost_share: float = 0.02
) -> Iterator[Finding]:
    """Yield each stretch with many spikes.

    least_spikes: within max(window_rows, window_share of the rows so far). lost_share: of the rows so far that were spent
    above the old level in as many spikes, however far apart.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    every = (spike for spike in episodes(segment, main, Limits()) if not at_restart(segment, main, spike))
    spikes = [(known, spike) for spike in every if (known := _counts(loss, spike)) is not None]
    for cluster in _clusters(loss, spikes, least_spikes, (window_rows, window_share), lost_share):
        yield _finding(segment, main, loss, cluster, (window_rows, window_share))


def _counts(loss: Track, spike: Episode) -> int | None:
    """Return the position at which a jump is known to be more than a hard batch, None if it never is."""
    if spike.early:
        return None
    if not spike.lone:
        return max(spike.known, spike.first + 1)
    towers = np.exp(loss.x[spike.first] - spike.level) >= LONE_RATIO or spike.supported
    return spike.known if spike.beyond and towers else None


def _clusters(
    loss: Track, spikes: list[tuple[int, Episode]], least: int, window: tuple[int, float], lost_share: float
) -> Iterator[Cluster]:
    firsts = np.array([spike.first for _, spike in spikes])
    ends = np.array([len(loss) if spike.back is None else spike.back for _, spike in spikes])
    reach = np.maximum(window[0], window[1] * firsts)
    begin, count = np.searchsorted(firsts, firsts - reach), np.arange(len(spikes)) + 1
    lost = np.cumsum(np.r_[0, np.minimum(ends[:-1], firsts[1:]) - firsts[:-1]]) if len(spikes) else firsts
    hot = (count - begin >= least) | ((count >= least) & (lost > lost_share * firsts))
    at = 0
    while at < len(spikes):
        stop = at + 1
        if hot[at]:
            start = int(begin[at])
            if count[at] - start < least:  # too many rows lost in spikes that lie far apart: all of them are told
                start, stop = 0, len(spikes)
            while stop < len(spikes) and firsts[stop] - ends[stop - 1] <= reach[stop]:
                stop += 1
            part = slice(start, stop)
            spent = int((ends[part] - firsts[part]).sum())
            yield Cluster(int(firsts[part][0]), spikes[at][0], int(ends[stop - 1]), stop - part.start, spent)
        at = stop


def _finding(segment: Segment, column: str, loss: Track, cluster: Cluster, window: tuple[int, float]) -> Finding:
    first, known = int(loss.rows[cluster.first]), int(loss.rows[cluster.known])
    calm = len(loss) - cluster.last > max(window[0], window[1] * len(loss))
    last = int(loss.rows[min(cluster.last, len(loss) - 1)])
    causes, advice = explain(segment, "spike_cluster", first, known=last)
    gaps = {"count": cluster.count, "step": where(segment, first), "end": where(segment, last), "lost": cluster.lost}
    title = Text(N_("{count} spikes of the loss since {step}: they keep coming"), gaps)
    if calm:
        title = Text(N_("{count} spikes of the loss between {step} and {end}, none since"), gaps)
    return Finding(
        kind="spike_cluster",
        severity=Severity.WARNING if calm else Severity.CRITICAL,
        segment=segment.number,
        first_step=segment.step(first),
        last_step=segment.step(last) if calm else None,
        known_step=segment.step(known),
        first_line=segment.line(first),
        last_line=segment.line(last),
        title=title,
        evidence=(
            fact(N_("spikes"), cluster.count, segment=segment, row=first),
            fact(N_("rows above the old level"), cluster.lost),
            fact(N_("share of all rows so far"), round(cluster.lost / max(len(loss), 1), 4)),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run with five spikes close together."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=9, fault="spike_cluster", at=0.5).segment


def well() -> Segment:
    """Return a run with one spike that recovers."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=5, fault="spike").segment

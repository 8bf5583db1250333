"""The policy of a reinforcement-learning run has collapsed.

Meaning: The answers have shrunk to next to nothing, the policy has lost its randomness, the reward has fallen back, or the
policy has run far away from its reference. The policy loss does not show it: it is signed and can look calm all the time.

Causes: A reward that pays for short or empty answers, a penalty that outweighs the reward, a learning rate too high, no or
too small a KL penalty, a clip range too wide, or a reward model that is exploited.

What to do: Stop and read samples of the answers around the step named here. Go back to a checkpoint before it; lower the
learning rate, strengthen the KL penalty or the entropy bonus, and correct what the reward pays for.

Source: reports of collapsed GRPO and PPO runs; each signal against its own first level and noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.attribution import explain
from analysis.evidence import fact, finding_at, where
from analysis.findings import Evidence, Finding, Severity
from analysis.noise import TO_SIGMA
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("reward|response_length|entropy|kl",)
SIGNALS = ("response_length", "entropy", "reward", "kl")
LEAST = 8  # values of a signal
CLOSE = 0.1  # of the rows so far, at least 30: signs within it belong together
TITLES = {
    "response_length": N_("Answers have shrunk from {before:.4g} to {now:.4g} tokens by {step}: the policy collapsed"),
    "entropy": N_("The policy lost its randomness by {step}: entropy from {before:.3g} to {now:.3g}"),
    "reward": N_("Reward fell from {before:.4g} to {now:.4g} by {step}"),
    "kl": N_("The policy ran away from its reference by {step}: KL from {before:.3g} to {now:.3g}"),
}
LABELS = {
    "response_length": N_("answer length"),
    "entropy": N_("entropy of the policy"),
    "reward": N_("reward"),
    "kl": N_("KL to the reference"),
}


@dataclass(frozen=True)
class Sign:
    """A signal that collapsed: rows at which it left its level and at which it was known, levels before and after.

    back: row at which it was well again, None if it is not; extreme: nothing is left of it.
    """

    name: str
    first: int
    known: int
    back: int | None
    before: float
    now: float
    extreme: bool


def check(
    segment: Segment,
    *,
    length_share: float = 0.2,
    entropy_share: float = 0.1,
    kl_ratio: float = 20.0,
    least_kl: float = 0.5,
    reward_deviations: float = 6.0,
    hold: int = 3,
) -> Iterator[Finding]:
    """Yield each collapse of the policy: signs that come close together are one.

    length_share, entropy_share: of the best level so far below which they must fall; kl_ratio, least_kl: times its median (of
    the last 200 rows, or of those half of the rows ago), and value, that the KL must pass; reward_deviations: of the reward's
    own noise that it must fall below its best.
    hold: values in a row for which it must be so (twice as many for the reward).
    """
    signs = list(_shrunk(segment, "response_length", length_share, hold))
    signs += _shrunk(segment, "entropy", entropy_share, hold)
    signs += _ran_away(segment, kl_ratio, least_kl, hold)
    signs += _reward_fell(segment, reward_deviations, 2 * hold)
    signs.sort(key=lambda sign: sign.known)
    while signs:
        lead = signs[0]
        group = [sign for sign in signs if sign.first - lead.known <= max(30, CLOSE * lead.known)]
        signs = [sign for sign in signs if sign not in group]
        yield _finding(segment, group)


def _values(segment: Segment, name: str) -> tuple[np.ndarray, np.ndarray]:
    values = segment.values(name)
    rows = np.flatnonzero(np.isfinite(values))
    return rows, values[rows]


def _held(hot: np.ndarray, hold: int) -> np.ndarray:
    return bn.move_sum(hot.astype(np.float64), hold, 1) >= hold


def _shrunk(segment: Segment, name: str, share: float, hold: int) -> Iterator[Sign]:
    """A positive signal of which next to nothing is left, compared with the best running median so far."""
    rows, values = _values(segment, name)
    if len(values) < LEAST or np.median(values[:LEAST]) <= 0:
        return
    best = np.fmax.accumulate(bn.move_median(values, min(5, len(values)), 1))
    best = np.r_[best[0], best[:-1]]
    known = np.flatnonzero(_held(values < share * best, hold))
    if not len(known):
        return
    at = int(known[0])
    level, now = float(best[at - hold + 1]), float(np.median(values[at - hold + 1 : at + 1]))
    left = np.flatnonzero(values[: at + 1] >= 0.5 * level)
    first = int(left[-1]) + 1 if len(left) else 0
    yield _sign(name, rows, (first, at), values > 0.5 * level, (level, now), extreme=now < 0.25 * share * level)


def _sign(
    name: str, rows: np.ndarray, at: tuple[int, int], well: np.ndarray, levels: tuple[float, float], *, extreme: bool
) -> Sign:
    """Return a sign; it is over at the third value in a row that is well again."""
    again = np.flatnonzero(_held(well, 3)[at[1] :])
    back = int(rows[at[1] + again[0]]) if len(again) else None
    return Sign(name, int(rows[at[0]]), int(rows[at[1]]), back, *levels, extreme)


def _ran_away(segment: Segment, ratio: float, least: float, hold: int) -> Iterator[Sign]:
    rows, values = _values(segment, "kl")
    if len(values) < LEAST:
        return
    level = bn.move_median(np.abs(values), min(200, len(values)), 1)
    at = np.maximum(np.arange(len(values)) - 1, 0)
    usual = np.fmin(level[at], level[at // 2])  # half of the rows ago, too: a slow climb pulls its own median up
    usual[:LEAST] = np.inf
    hot = (values > least) & (values > ratio * usual)
    known = np.flatnonzero(_held(hot, hold))
    if len(known):
        last = int(known[0])
        first = last - hold + 1
        before, now = float(usual[first]), float(np.median(values[first : last + 1]))
        yield _sign("kl", rows, (first, last), values < 2 * before, (before, now), extreme=False)


def _reward_fell(segment: Segment, deviations: float, hold: int) -> Iterator[Sign]:
    """The reward fell far below its best level, and lost most of what it had gained."""
    rows, values = _values(segment, "reward")
    if len(values) < 3 * LEAST:
        return
    level = bn.move_median(values, 9, 1)
    noise = TO_SIGMA * np.sqrt(0.5) * bn.move_median(np.abs(np.diff(values, prepend=values[0])), min(100, len(values)), 1)
    best = np.fmax.accumulate(level)
    best = np.r_[best[0], best[:-1]]
    gained = best - np.median(values[:LEAST])
    hot = (values < best - deviations * np.maximum(noise, 1e-6)) & (best - values > 0.5 * np.abs(gained))
    hot &= best - values > 0.1 * np.abs(best)
    hot[: 2 * LEAST] = False
    known = np.flatnonzero(_held(hot, hold))
    if len(known):
        at = int(known[0])
        before, now = float(best[at - hold + 1]), float(np.median(values[at - hold + 1 : at + 1]))
        left = np.flatnonzero(values[: at + 1] >= (before + now) / 2)
        first = int(left[-1]) + 1 if len(left) else 0
        yield _sign("reward", rows, (first, at), values > (before + now) / 2, (before, now), extreme=False)


def _finding(segment: Segment, group: list[Sign]) -> Finding:
    lead = min(group, key=lambda sign: (sign.known, SIGNALS.index(sign.name)))
    first = min(sign.first for sign in group)
    back = None if any(sign.back is None for sign in group) else max(sign.back or 0 for sign in group)
    causes, advice = explain(segment, "reward_collapse", first, known=lead.known)
    sure = len(group) > 1 or lead.extreme or lead.name == "response_length"
    gaps = {"before": lead.before, "now": lead.now, "step": where(segment, lead.known)}
    return finding_at(
        segment,
        kind="reward_collapse",
        severity=Severity.CRITICAL if sure and back is None else Severity.WARNING,
        first=first,
        known=lead.known,
        end=back,
        title=Text(TITLES[lead.name], gaps),
        evidence=tuple(_evidence(segment, group, lead)),
        causes=causes,
        advice=advice,
    )


def _evidence(segment: Segment, group: list[Sign], lead: Sign) -> Iterator[Evidence]:
    for sign in group:
        yield fact(LABELS[sign.name], sign.now, segment=segment, row=sign.known)
        yield Evidence(Text(N_("before")), sign.before)
    if segment.has("policy_loss"):
        yield fact(N_("policy loss there: it does not show it"), float(segment.values("policy_loss")[lead.known]))


def sick() -> Segment:
    """Return a run whose answers shrink to one token within a few steps."""
    from analysis.simulate import simulate_policy

    return simulate_policy(rows=300, seed=25, collapses_at=100)


def well() -> Segment:
    """Return a run whose answers get shorter and whose reward rises, as it should."""
    from analysis.simulate import simulate_policy

    return simulate_policy(rows=300, seed=25)

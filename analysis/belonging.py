"""What belongs to a fault that has its own name: the swing or the rise is told, not each jump, dip and step in it."""

import numpy as np

from analysis.episodes import Episode
from analysis.noise import track
from analysis.rules.divergence import rises
from analysis.rules.oscillation import swings
from analysis.segment import Segment
from analysis.steps import shifts
from analysis.warm_restarts import by_schedule

BEHIND, TOWERS, LEAST = 20, 8.0, 0.05  # rows, deviations and logs by which another jump towers over what was just before
MOST_SWING = 0.9  # of the level, up to which a swing has a height in logs


def in_swing(segment: Segment, column: str, at: int, height: float) -> bool:
    """Say whether a place of the track lies in a swing that is as high (in logs, from trough to peak)."""
    return any(
        swing.first <= at and (swing.last is None or at <= swing.last) and height <= _height(swing.amplitude)
        for swing in swings(segment, column)
    )


def _height(amplitude: float) -> float:
    share = min(amplitude, MOST_SWING)
    return float(np.log((1 + share) / (1 - share)))


def in_rise(segment: Segment, column: str, first: int, last: int) -> bool:
    """Say whether places of the track lie in a rise of the loss, or a rise begins there."""
    return any(rise.first <= last and (rise.end is None or first <= rise.end) for rise in rises(segment, column))


def at_restart(segment: Segment, column: str, jump: Episode) -> bool:
    """Say whether a jump belongs to a warm restart of the learning rate, and holds no other jump behind that."""
    x = track(segment, column).x
    near = x[max(jump.peak - BEHIND, jump.first) : jump.peak]
    if jump.peak - jump.first > BEHIND and x[jump.peak] - np.median(near) > max(TOWERS * jump.scale, LEAST):
        return False
    return by_schedule(segment, column, jump.first, jump.level, float(x[jump.peak])) is not None


def in_step(segment: Segment, column: str, jump: Episode) -> bool:
    """Say whether a jump is a step of the level that is too small for one, and stays."""
    return any(shift.meets(jump) and shift.stays(jump) for shift in shifts(segment, column))

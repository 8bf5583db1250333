"""What logging costs: lines and bytes a step of one run, and the time of a step of two runs, verbose and not."""

from dataclasses import dataclass

import numpy as np

from analysis.segment import Segment
from analysis.step_time import step_time
from messages import N_, Text

BLOCKS, DRAWS = 40, 2000
PERCEPTIBLE = 0.01  # of the time of a step
ACTIONS = (
    Text(N_("print less often: every 10 or 50 steps instead of each")),
    Text(N_("write the log from another thread, so that the step does not wait for the disk")),
)
VERDICTS = {
    "perceptible": N_("Verbose logging is perceptible: a step takes {share:.1%} longer ({low:.1%} to {high:.1%})"),
    "imperceptible": N_("Verbose logging is not perceptible: {share:+.1%} of a step ({low:+.1%} to {high:+.1%})"),
    "undecided": N_(
        "It can't be told whether verbose logging is perceptible: {share:+.1%} of a step ({low:+.1%} to {high:+.1%})"
    ),
}


@dataclass(frozen=True)
class LogSize:
    """What a log weighs: lines and bytes a training step, bytes a line, steps between two records, the format's name."""

    lines_per_step: float
    bytes_per_step: float
    bytes_per_line: float
    steps_per_record: float
    format: str


@dataclass(frozen=True)
class Overhead:
    """What verbose logging adds to a step.

    share: of the quiet step time, with (low, high), 19 times in 20; verdict: perceptible | imperceptible | undecided.
    text: the verdict in words; actions: what to do, most useful first, empty unless perceptible.
    """

    share: float
    low: float
    high: float
    verdict: str
    text: Text
    actions: tuple[Text, ...]


def log_size(
    *, lines: int, size: int, records: int, first_step: int | None, last_step: int | None, format: str
) -> LogSize | None:
    """Return what a log weighs a step from what its reader counted; None where it holds no steps.

    A record alone is the first: it is of all steps before it.
    """
    if not records or not lines:
        return None
    interval = 1.0
    if first_step is not None and last_step is not None:
        interval = max(last_step - first_step, 1) / (records - 1) if records > 1 else float(max(last_step, 1))
    steps = interval * records
    return LogSize(lines / steps, size / steps, size / lines, interval, format)


def overhead(verbose: Segment, quiet: Segment) -> Overhead | Text:
    """Return what verbose logging costs by comparing two runs that differ in nothing else, or why that can't be told."""
    found = [step_time(segment) for segment in (verbose, quiet)]
    if any(item is None or not item.exact or len(item.series) < 2 * BLOCKS for item in found):
        rows = {"rows": 2 * BLOCKS}
        return Text(N_("both runs must print how long their steps took, in {rows} rows or more"), rows)
    drawn = [_medians(np.asarray(item.series.values), seed) for seed, item in enumerate(found) if item is not None]
    shares = drawn[0] / drawn[1] - 1
    low, middle, high = (float(value) for value in np.percentile(shares, [2.5, 50, 97.5]))
    verdict = "undecided"
    if low > 0 and middle >= PERCEPTIBLE:
        verdict = "perceptible"
    elif high < PERCEPTIBLE:
        verdict = "imperceptible"
    text = Text(VERDICTS[verdict], {"share": middle, "low": low, "high": high})
    return Overhead(middle, low, high, verdict, text, ACTIONS if verdict == "perceptible" else ())


def _medians(seconds: np.ndarray, seed: int) -> np.ndarray:
    """Return the usual step time (DRAWS,): median of block medians, the blocks drawn again."""
    blocks = np.array([np.median(part) for part in np.array_split(seconds, BLOCKS)])
    random = np.random.default_rng(seed)
    return np.median(blocks[random.integers(0, BLOCKS, (DRAWS, BLOCKS))], axis=1)

"""The first losses are not those of a sound start.

Meaning: An untrained model gives every word the same chance, so its first loss is about the logarithm of the vocabulary. A
single high first step means nothing; losses that stay far above that at the beginning mean that the run starts wrong or has
already flown apart before it was first logged.

Causes: A learning rate so high that the first steps destroyed the model, an initialisation that is too large, labels
shifted by the wrong number, a loss that is summed instead of averaged, or another vocabulary than the model's.

What to do: Print the loss before the first update: it must be near ln(vocabulary). If it is, lower the learning rate or
lengthen the warm-up; if not, look at initialisation, labels and how the loss is reduced.

Source: cross-entropy of a uniform guess; without a known vocabulary the largest in use (262,144 words) sets the limit.
"""

from collections.abc import Iterator

import numpy as np

from analysis.attribution import explain
from analysis.episodes import episodes
from analysis.evidence import at_step, fact, finding_at, median_fact, where
from analysis.findings import Finding, Severity
from analysis.first_loss import LARGEST_VOCABULARY, UNTRAINED, FirstLoss, first_loss
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True


def check(
    segment: Segment,
    *,
    high: float = 1.25,
    high_unknown: float = 1.12,
    low: float = 0.6,
    rows: int = 10,
    late_step: int = 20,
    impossible: float = 8.0,
) -> Iterator[Finding]:
    """Yield a start with losses far above those of an untrained model, or note one far below.

    high, low: times the logarithm of the vocabulary where it is known; high_unknown: times that of the largest in use.
    rows: first values whose median must pass; late_step: from this step on a single first value is enough, for the model has
    learned by then; impossible: as many times the limit that even a first step can't be.
    """
    begin, main = first_loss(segment), loss_kind(segment).main
    if begin is None or main is None or not begin.anew:
        return
    loss = track(segment, main)
    limit = high * begin.expected if begin.expected else high_unknown * np.log(LARGEST_VOCABULARY)
    jump = next((spike.first for spike in episodes(segment, main) if spike.first < rows), rows)  # is another finding
    known = _known(segment, loss, float(np.log(limit)), min(rows, max(jump, 1)), late_step, impossible)
    if known is not None:
        yield _finding(segment, main, loss, begin, known, limit)
    elif begin.expected and len(loss) >= rows and max(begin.first, begin.level) < low * begin.expected:
        yield _trained(segment, main, loss, begin, (rows, late_step))


def _known(segment: Segment, loss: Track, limit: float, rows: int, late_step: int, impossible: float) -> int | None:
    """Return the position at which the start is known to be wrong, None if it is not."""
    if loss.x[0] > limit + np.log(impossible):
        return 0
    steps = segment.steps()[loss.rows[:rows]]
    late = np.flatnonzero((loss.x[:rows] > limit) & (steps - steps[0] + _first_step(segment) >= late_step))
    if len(late) and (late[0] == 0 or loss.x[: late[0] + 1].min() > limit):
        return int(late[0])
    return rows - 1 if len(loss) >= rows and np.median(loss.x[:rows]) > limit else None


def _first_step(segment: Segment) -> float:
    """Return how many steps had been done when the first row was logged, 0 where the log does not number them."""
    first = segment.step(0)
    return float(first) if first is not None and segment.has("step_printed") else 0.0


def _launch(segment: Segment) -> Text:
    return Text(N_("Launch {number}"), {"number": segment.number + 1}) if segment.number else Text(N_("The run"))


def _finding(segment: Segment, column: str, loss: Track, begin: FirstLoss, known: int, limit: float) -> Finding:
    row = int(loss.rows[known])
    causes, advice = explain(segment, "initial_loss", int(loss.rows[0]), known=row)
    top = int(np.argmax(loss.x[: known + 1]))
    gaps = {"launch": _launch(segment), "loss": float(np.exp(min(loss.x[top], 690)))}
    gaps |= {"step": where(segment, int(loss.rows[top])), "expected": begin.expected or np.log(LARGEST_VOCABULARY)}
    text = N_("{launch} starts with a loss of {loss:.4g} ({step}); no vocabulary explains more than {expected:.3g}")
    if begin.expected:
        text = N_(
            "{launch} starts with a loss of {loss:.4g} ({step}); an untrained model of this vocabulary has {expected:.3g}"
        )
    title = Text(text, gaps)
    return finding_at(
        segment,
        kind="initial_loss",
        severity=Severity.WARNING,
        first=int(loss.rows[0]),
        known=row,
        end=row,
        title=title,
        evidence=(
            fact(N_("{column}: first value"), begin.first, segment=segment, row=int(loss.rows[0]), column=column),
            fact(N_("loss of an untrained model"), float(f"{gaps['expected']:.4g}")),
            fact(N_("limit"), float(f"{limit:.4g}")),
        ),
        causes=causes,
        advice=advice,
    )


def _trained(segment: Segment, column: str, loss: Track, begin: FirstLoss, limits: tuple[int, int]) -> Finding:
    rows, late_step = limits
    first, row = int(loss.rows[0]), int(loss.rows[rows - 1])
    gaps = {"launch": _launch(segment), "loss": begin.first, "step": where(segment, first)}
    gaps |= {"expected": begin.expected or 0.0, "words": begin.vocabulary or 0}
    causes, advice = explain(segment, "trained_before", first, known=row)
    text = N_(
        "{launch} begins with a trained model: its loss at {step} is {loss:.4g}; untrained, with {words:,} "
        "words, it would be {expected:.3g}"
    )
    if _first_step(segment) > late_step:
        text = N_(
            "{launch} prints its first loss at {step}: {loss:.4g}, where an untrained model of {words:,} words "
            "has {expected:.3g}. It was trained before, or learned fast"
        )
    return finding_at(
        segment,
        kind="initial_loss",
        severity=Severity.INFO,
        first=first,
        known=row,
        end=row,
        title=Text(text, gaps),
        evidence=(
            fact(N_("{column}: first value"), begin.first, segment=segment, row=first, column=column),
            median_fact(N_("{column}: first values"), segment, loss, (0, rows), column),
        ),
        causes=causes,
        advice=advice,
    )


def partly(segment: Segment) -> tuple[tuple[str, ...], Text] | None:
    """Say that without the vocabulary the first loss can't be judged exactly, and which vocabulary it would belong to."""
    begin = first_loss(segment)
    if begin is None or (begin.vocabulary is not None and begin.anew):
        return None
    gaps = {
        "launch": _launch(segment),
        "loss": begin.first,
        "words": begin.implied or 0,
        "step": at_step(segment, begin.step or 1),
    }
    if not begin.anew:
        text = N_("{launch} goes on with an earlier one at {step}: the loss there is no first loss")
        return (), Text(text, gaps)
    if begin.implied is None:
        return ("vocab_size",), Text(
            N_("The log does not print the vocabulary size: a first loss of {loss:.4g} fits none"), gaps
        )
    if begin.first < UNTRAINED:
        text = N_(
            "The log does not print the vocabulary size: a first loss of {loss:.4g} is low for an untrained language model"
        )
        return ("vocab_size",), Text(text, gaps)
    text = N_("The log does not print the vocabulary size: a first loss of {loss:.4g} would belong to {words:,} words")
    return ("vocab_size",), Text(text, gaps)


def sick() -> Segment:
    """Return a run that starts at three times the loss of an untrained model."""
    from analysis.simulate import simulate

    return simulate(rows=500, seed=17, fault="bad_start").segment


def well() -> Segment:
    """Return a run with one very high first step."""
    from analysis.simulate import simulate

    segment = simulate(rows=500, seed=17).segment
    segment.rows.loc[0, "loss"] = 26.0
    return segment

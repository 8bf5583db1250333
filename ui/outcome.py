"""How a run ended, in words: the one place that says so, for every page."""

from storage.types import Run
from ui.text import _, percent


def share(run: Run) -> float | None:
    """Return the share of the planned steps that is done, None where no plan is known."""
    return min(1.0, (run.last_step or 0) / run.total_steps) if run.total_steps else None


def whole(run: Run) -> bool:
    """Say whether the plan was done, as far as the last printed step tells; a run without a plan has nothing left of it."""
    if not run.total_steps or run.last_step is None:
        return True
    apart = (run.last_step - (run.first_step or 0)) / max(run.rows - 1, 1)
    return run.last_step + max(apart, 1) >= run.total_steps


def over(run: Run, *, as_told: bool, brief: bool = False) -> str:
    """Return the word for a run that is over; as_told: its log says that it is done; brief: its progress stands beside."""
    if not as_told:
        return _("Ended")
    done = share(run)
    if done is None or whole(run):
        return _("Done")
    words = _("Stopped at {share}") if brief else _("Stopped at {share} of its plan")
    return words.format(share=percent(done, digits=1 if done < 0.1 else 0))

"""Which of many runs are one experiment: those that a comparison with the first of them would not refuse or bar."""

from collections.abc import Mapping, Sequence

from analysis.compare.conditions import conditions
from analysis.compare.config_diff import config_diff
from analysis.compare.fairness import BAR, REFUSE, Reason, fairness
from analysis.compare.subject import Subject
from messages import N_, Text, listed, verbatim

NAMED = 6  # runs of many that are named
OUT = (REFUSE, BAR)  # levels of reasons for which a run is not counted with the others
LEFT_OUT = N_("left out: {run} — {why}")
SEVERAL_LEFT_OUT = N_("left out: {runs} — of the first of them: {why}")
MORE = N_("… ({count:,} in all)")
OTHER_STEPS = N_("counted, though their steps are other steps: {runs} — of the first of them: {why}")


def strangers(
    lead: Subject, others: Sequence[Subject], names: Mapping[str, str], *, levels: Sequence[str] = OUT
) -> dict[str, Reason]:
    """Return by id the runs that don't compare with `lead`, each with the first reason of a comparison with it.

    names: what each is called, by id; levels: of the reasons that are looked for.
    """
    found = {}
    for one in others:
        both = [lead, one]
        said = [conditions(run) for run in both]
        diff = config_diff(both, said)
        fair = fairness(both, said, pairs={1: diff}, whole=diff, names=[names[run.id] for run in both])
        why = next((reason for reason in fair.reasons if reason.level in levels and one.id in reason.runs), None)
        if why is not None:
            found[one.id] = why
    return found


def left_out(reasons: Mapping[str, Reason], names: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return one reason for all runs (ids) that are left out for the same one, with the sentence about the first of them."""
    by_code: dict[str, list[str]] = {}
    for run, reason in reasons.items():
        by_code.setdefault(reason.code, []).append(run)
    found = []
    for code, runs in by_code.items():
        why = reasons[runs[0]]
        one = Text(LEFT_OUT, {"run": names[runs[0]], "why": why.text})
        text = one if len(runs) == 1 else Text(SEVERAL_LEFT_OUT, {"runs": few_named(runs, names), "why": why.text})
        found.append(Reason(code, why.level, text, tuple(runs)))
    return tuple(found)


def other_steps(reasons: Mapping[str, Reason], names: Mapping[str, str]) -> tuple[Text, ...]:
    """Return what is said of runs (ids) whose steps are not those of the others (level STEP), nothing without any."""
    if not reasons:
        return ()
    first = next(iter(reasons.values()))
    return (Text(OTHER_STEPS, {"runs": few_named(list(reasons), names), "why": first.text}),)


def few_named(runs: Sequence[str], names: Mapping[str, str]) -> Text:
    """Return the names of runs (ids) as one list; of many the first, and how many they are."""
    more = [Text(MORE, {"count": len(runs)})] if len(runs) > NAMED else []
    return listed([*(verbatim(names[run]) for run in runs[:NAMED]), *more])

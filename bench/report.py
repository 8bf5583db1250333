"""The tables of the bench of the diagnosis, and the page of the documentation that holds them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.registry import all_rules
from bench import incidents
from bench.baselines import BASELINES
from bench.scoring import Outcome, Score, poisson, score, wilson
from storage.types import UnreadableLog

INFORMING = frozenset({rule.name for rule in all_rules() if rule.informs} | {"restart", "stopped"})
COMPARED = frozenset({"", "spike", "spike_unrecovered", "spike_cluster", "divergence", "non_finite"})
MERGED = 60  # rows within which alarms of a class are one
TIERS = ("standard", "hard")
OWN = ("articles (fixed thresholds)", "Runvitals")
NOT_LANGUAGE = ("151", "152", "175", "221", "165", "185")  # vision, and readings of machines
COMMAND = "python bench/diagnosis.py --json bench/out/diagnosis.jsonl --write docs/diagnosis.md --logs FOLDER"
LEAST_F1 = {"spike": 0.95, "spike_unrecovered": 0.92, "divergence": 0.92, "plateau": 0.90}
SOON = {"spike": 2, "non_finite": 2, "lr_anomaly": 2, "restart": 2, "slowdown": 60}
SHARES = {"divergence": 3.0, "plateau": 3.0, "overfit": 3.0}


def scores(kinds: Sequence[str], faulty: Sequence[Outcome], quiet: Sequence[Outcome]) -> list[Score]:
    """Return the score of each class of one tier; false alarms are those of its faulty runs and of all healthy ones."""
    return [score(kind, [item for item in faulty if item.kind == kind], [*faulty, *quiet]) for kind in kinds]


def table(lines: Sequence[Score]) -> list[str]:
    """Return the table of a tier in Markdown."""
    head = "| class | found / missed / false | precision | recall | F1 | delay p50 / p90, rows | % of run | cause top 1 / 3 |"
    result = [head, "|---|---|---|---|---|---|---|---|"]
    for item in lines:
        p, r = wilson(item.found, item.found + item.wrong), wilson(item.found, item.found + item.missed)
        delay = f"{item.delays[0]:.0f} / {item.delays[1]:.0f}" if item.delays else "–"
        late = f"{item.late:.1f}" if item.late is not None else "–"
        cause = f"{item.causes[0]:.2f} / {item.causes[1]:.2f}" if item.causes else "–"
        result.append(
            f"| {item.kind} | {item.found} / {item.missed} / {item.wrong} | {item.precision:.3f} ({p[0]:.2f}–{p[1]:.2f}) | "
            f"{item.recall:.3f} ({r[0]:.2f}–{r[1]:.2f}) | {item.f1:.3f} ({item.f1_low:.2f}–{item.f1_high:.2f}) | {delay} | "
            f"{late} | {cause} |"
        )
    macro = float(np.mean([item.f1 for item in lines])) if lines else 0.0
    return [*result, f"| **macro** | | | | **{macro:.3f}** | | | |"]


def alarm_table(quiet: Sequence[Outcome]) -> list[str]:
    """Return what was said falsely of healthy runs."""
    rows = sum(item.rows for item in quiet)
    loud = [name for item in quiet for name in item.wrong]
    low, high = poisson(len(loud))
    unit = 1e5 / max(rows, 1)
    healthy_verdicts = sum(item.verdict == "healthy" for item in quiet)
    kinds = Counter(item.made for item in quiet for _ in item.wrong)
    return [
        f"{len(quiet):,} healthy runs of {len({item.made for item in quiet})} kinds, {rows:,} rows: {len(loud)} false alarms, "
        f"**{len(loud) * unit:.2f} per 100,000 rows** ({low * unit:.2f}–{high * unit:.2f}) over all rules; "
        f"verdict `healthy` in {healthy_verdicts} of them.",
        f"By class: {dict(Counter(loud).most_common()) or 'none'}. By kind of run: {dict(kinds.most_common()) or 'none'}.",
    ]


def baseline_table(faulty: Sequence[Outcome], quiet: Sequence[Outcome]) -> list[str]:
    """Return how the baselines do where they claim something, on the standard tier."""
    rows = sum(item.rows for item in quiet)
    result = [
        "| criterion | claims | recall | precision | F1 | false alarms per 100k healthy rows |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*BASELINES, *OWN]:
        claims = BASELINES[name].claims if name in BASELINES else tuple(sorted(COMPARED - {""}))
        mine = [item.theirs[name] for item in faulty if item.kind in claims and item.theirs]
        found, false = sum(hit for hit, _ in mine), sum(item.theirs[name][1] for item in [*faulty, *quiet] if item.theirs)
        loud = sum(item.theirs[name][1] for item in quiet)
        precision, recall = found / max(found + false, 1), found / max(len(mine), 1)
        both = 2 * precision * recall / max(precision + recall, 1e-9)
        unit = 1e5 * loud / max(rows, 1)
        result.append(f"| {name} | {', '.join(claims)} | {recall:.3f} | {precision:.3f} | {both:.3f} | {unit:.2f} |")
    return result


def real_logs(folder: Path) -> list[str]:
    """Return the table of the real logs in a folder whose story is known, and the alarms that no story explains."""
    lines = ["| log | known | class | found | at step | known at | verdict |", "|---|---|---|---|---|---|---|"]
    loud: Counter[str] = Counter()
    proved: Counter[str] = Counter()
    rows, met, asked = 0, 0, 0
    for path in sorted(folder.glob("[0-9][0-9][0-9]-*")):
        number = path.name[:3]
        try:
            diagnosis, records = incidents.read(path)
        except UnreadableLog:
            continue
        table = list(incidents.outcomes(number, diagnosis))
        lines += [_real(item) for item in table]
        met, asked = met + sum(item.found and item.verdict_right for item in table), asked + len(table)
        if number not in NOT_LANGUAGE:
            rows += records
            stories = incidents.EXPECTED.get(number, ())
            before = {item.kind for item in stories if not item.words.endswith("*")}
            loud.update(f.kind for f in incidents.alarms(diagnosis) if f.kind not in before)
            proved.update(item.kind for item in stories if item.kind not in before)
    of_losses, true = (sum(count for kind, count in each.items() if kind in incidents.LOSS_KINDS) for each in (loud, proved))
    unit = 1e5 / max(rows, 1)
    return [
        *lines,
        "",
        f"{met} of {asked} expectations are met, verdict included. On the {rows:,} rows of the logs of language models, alarms "
        f"that no story explains which was known before: {dict(loud.most_common())}: **{of_losses * unit:.1f} per 100,000 "
        f"rows** of the rules about losses, {sum(loud.values()) * unit:.1f} of all rules. A star marks stories of which the "
        f"alarm told first: {true} of the {of_losses} about losses proved true when the curve was looked at.",
    ]


def _real(item: incidents.Outcome) -> str:
    found = "yes" if item.found else "**no**"
    verdict = str(item.verdict) if item.verdict_right else f"**{item.verdict}**"
    cells = (item.number, item.expected, item.kind, found, item.step, item.known_step, verdict)
    return "| " + " | ".join("–" if cell is None else str(cell) for cell in cells) + " |"


def target_table(lines: dict[str, list[Score]], quiet: Sequence[Outcome]) -> list[str]:
    """Return what was to be reached and what is."""
    standard = {item.kind: item for item in lines["standard"]}
    rows = sum(item.rows for item in quiet)
    loud = 1e5 * sum(len(item.wrong) for item in quiet) / max(rows, 1)
    causes = [item.causes for item in lines["standard"] if item.causes]
    wanted: list[tuple[str, Any, str, bool]] = []
    for tier, least in (("standard", 0.97), ("hard", 0.85)):
        macro = float(np.mean([item.f1 for item in lines[tier]])) if lines[tier] else 0.0
        wanted.append((f"macro-F1, {tier} tier", f">= {least}", f"{macro:.3f}", macro >= least))
    for kind, least in LEAST_F1.items():
        if kind in standard:
            wanted.append((f"F1 {kind}", f">= {least:.2f}", f"{standard[kind].f1:.3f}", standard[kind].f1 >= least))
    wanted.append(("false alarms per 100k healthy rows", "<= 0.5", f"{loud:.2f}", loud <= 0.5))
    for kind, most in SOON.items():
        delay = standard[kind].delays if kind in standard else None
        if delay:
            wanted.append((f"delay p50 {kind}, rows", f"<= {most}", f"{delay[0]:.0f}", delay[0] <= most))
    for kind, share in SHARES.items():
        late = standard[kind].late if kind in standard else None
        if late is not None:
            wanted.append((f"delay p50 {kind}, % of the run", f"<= {share:.0f}", f"{late:.1f}", late <= share))
    for place, (name, least) in enumerate((("top 1", 0.80), ("top 3", 0.95))):
        mean = float(np.mean([pair[place] for pair in causes])) if causes else 0.0
        wanted.append((f"cause {name}, mean over classes", f">= {least:.2f}", f"{mean:.2f}", mean >= least))
    head = ["| target | wanted | measured | met |", "|---|---|---|---|"]
    return head + [f"| {name} | {least} | {value} | {'yes' if met else '**no**'} |" for name, least, value, met in wanted]


def missed_table(found: Sequence[tuple[Any, Outcome]]) -> list[str]:
    """Return, by class, how many faults of each tier were missed and in which forms of text."""
    lines = ["| class | tier | missed | forms |", "|---|---|---|---|"]
    groups: dict[tuple[str, str], list[str]] = {}
    for task, item in found:
        if task.tier and not item.hit:
            groups.setdefault((item.kind, task.tier), []).append(item.form)
    for (kind, tier), forms in sorted(groups.items(), key=lambda pair: (pair[0][1], -len(pair[1]))):
        most = ", ".join(f"{name} {count}" for name, count in Counter(forms).most_common(4))
        lines.append(f"| {kind} | {tier} | {len(forms)} | {most} |")
    return lines


def report(found: Sequence[tuple[Any, Outcome]], kinds: Sequence[str], logs: Path | None) -> str:
    """Return the page of the documentation."""
    faulty = {tier: [item for task, item in found if task.tier == tier] for tier in TIERS}
    quiet = [item for task, item in found if not task.tier]
    lines = {tier: scores(kinds, faulty[tier], quiet) for tier in TIERS}
    words = Path(__file__).with_name("diagnosis.md").read_text(encoding="utf-8")
    parts = {
        "COMMAND": [f"    {COMMAND}"],
        "SIZES": [_sizes(found)],
        "TARGETS": target_table(lines, quiet),
        "STANDARD": table(lines["standard"]),
        "HARD": table(lines["hard"]),
        "HEALTHY": alarm_table(quiet),
        "BASELINES": baseline_table(faulty["standard"], quiet),
        "MISSED": missed_table(found),
        "REAL": real_logs(logs) if logs else ["Not run: the bench was given no folder of real logs."],
    }
    for name, text in parts.items():
        words = words.replace("{" + name + "}", "\n".join(text))
    return words


def _sizes(found: Sequence[tuple[Any, Outcome]]) -> str:
    counts = Counter((task.tier, item.kind) for task, item in found if task.tier)
    least = min(counts.values(), default=0)
    seeds = sorted({task.seed for task, _ in found})
    return (
        f"This page: {len(found):,} runs, {sum(item.rows for _, item in found):,} rows, at least {least} faulty runs a class "
        f"and tier, first seed {', '.join(map(str, seeds))}."
    )

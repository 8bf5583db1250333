"""How often the diagnosis is right: simulated runs of every class, printed as text, read by the reader, then diagnosed.

Usage: python bench/diagnosis.py [--quick] [--runs 60] [--healthy 24] [--seed 50000] [--jobs 2] [--only plateau,spike]
                                 [--missed] [--write docs/diagnosis.md --logs FOLDER] [--json bench/out/diagnosis.json]

A fault is found if a finding of its class is first known no earlier than 40 rows before it and no later than max(300 rows,
8 % of the run) after its end. Only warnings count, except in classes that inform by nature. A finding of another class that
is not true of the run is a false alarm (several of a class within 60 rows are one). Rules were tuned on seeds below 10,000.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.diagnose import Diagnosis, diagnose
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.segment import Segment
from analysis.simulate_cases import CASES, Story, story
from analysis.simulate_healthy import HEALTHY, healthy
from bench.baselines import BASELINES
from bench.report import COMPARED, INFORMING, MERGED, OWN, TIERS, alarm_table, baseline_table, report, scores, table
from bench.scoring import Outcome
from server.service import to_segments
from storage.reader import read_file


class Task(NamedTuple):
    """One run: tier ("" for a healthy one), class or kind, number, first seed."""

    tier: str
    kind: str
    number: int
    seed: int


class Rows:
    """The rows of a log as they were read, over all launches: where a step stands among them."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.starts = np.cumsum([0, *(len(segment) for segment in segments)])
        self.steps = np.concatenate([segment.steps() for segment in segments] or [np.zeros(0)])
        self.lines = np.concatenate([segment.values("line") for segment in segments] or [np.zeros(0)])
        self.numbers = {segment.number: place for place, segment in enumerate(segments)}

    def printed(self, told: Story, row: int | None) -> int:
        """Return where a printed row is; of steps printed twice the one nearest to its place."""
        if row is None or not len(self.steps):
            return len(self.steps)
        steps = told.segment.steps()
        expected = row * len(self.steps) / max(len(steps), 1)
        same = np.flatnonzero(self.steps == steps[min(row, len(steps) - 1)])
        return int(same[np.argmin(np.abs(same - expected))]) if len(same) else round(expected)

    def known(self, finding: Finding) -> int:
        """Return the row at which a finding was known."""
        place = self.numbers[finding.segment]
        first, last = int(self.starts[place]), int(self.starts[place + 1])
        if finding.known_step is None:
            return max(last - 1, 0)
        same = first + np.flatnonzero(self.steps[first:last] == finding.known_step)
        later = same[self.lines[same] >= (finding.first_line or 0)]
        return int(later[0] if len(later) else same[-1]) if len(same) else last


def run(task: Task) -> Outcome:
    """Make a run, print it, read it, diagnose it, and say what became of it."""
    told = story(task.kind, task.number, task.seed, hard=task.tier == "hard") if task.tier else healthy(*task[1:])
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.write("\n".join(told.lines) + "\n")
        file.flush()
        read = read_file(file.name)
    segments = to_segments(read.rows, read.events, dict(read.report.config), read.report.drifts)
    rows, diagnosis = Rows(segments), diagnose(segments)
    kind = task.kind if task.tier else ""
    first = rows.printed(told, told.label.first_row) if told.label else 0
    end = rows.printed(told, told.label.last_row) if told.label else 0
    span = (first - 40, end + max(300, int(0.08 * len(rows.steps))))
    mine = [f for f in diagnosis.findings if counts(f) and f.kind == kind and span[0] <= rows.known(f) <= span[1]]
    best = min(mine, key=rows.known, default=None)
    true = told.allowed | ({kind} | told.label.also if told.label else set())
    wrong = {(f.kind, rows.known(f) // MERGED) for f in diagnosis.findings if counts(f) and f.kind not in true}
    cause = told.label.cause if told.label else None
    names = [item.name for item in best.causes] if best else []
    return Outcome(
        kind=kind,
        made=task.kind,
        number=task.number,
        form=told.form,
        rows=len(rows.steps),
        hit=best is not None,
        delay=rows.known(best) - first if best else None,
        place=names.index(cause) if cause in names else None,
        asked=cause is not None,
        wrong=tuple(sorted(name for name, _ in wrong)),
        verdict=str(diagnosis.verdict),
        theirs=others(segments, rows, diagnosis, kind, span, true) if kind in COMPARED else {},
    )


def counts(finding: Finding) -> bool:
    """Say whether a finding is one that a user is told of: a warning, or information where a class only informs."""
    return finding.severity is not Severity.INFO or finding.kind in INFORMING


def others(
    segments: Sequence[Segment],
    rows: Rows,
    ours: Diagnosis,
    kind: str,
    span: tuple[int, int],
    true: set[str] | frozenset[str],
) -> dict[str, tuple[bool, int]]:
    """Return what each baseline, the articles' thresholds and our own rules say: (hit, false alarms)."""
    result = {}
    for name, baseline in BASELINES.items():
        at = []
        for place, segment in enumerate(segments):
            main = loss_kind(segment).main or "loss"
            at.append(rows.starts[place] + baseline.rows(segment.values(main), segment.values("grad_norm")))
        result[name] = _judged(np.concatenate(at or [np.zeros(0)]), baseline.claims, kind, span, true)
    for name, said in ((OWN[0], diagnose(segments, profile="articles")), (OWN[1], ours)):
        found = [f for f in said.findings if f.severity is not Severity.INFO]
        claims = tuple(sorted(COMPARED - {""}))
        known = np.array([rows.known(f) for f in found if f.kind in claims])
        result[name] = _judged(known, claims, kind, span, true)
    return result


def _judged(
    at: np.ndarray, claims: Sequence[str], kind: str, span: tuple[int, int], true: set[str] | frozenset[str]
) -> tuple[bool, int]:
    if set(claims) & set(true):  # something of its kind is there: it is hit or missed, and nothing more is counted
        return bool(((at >= span[0]) & (at <= span[1])).any()) and kind in claims, 0
    return False, len(set((at // MERGED).tolist()))


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return every run to make, of the first number of all classes before those of the second."""
    wanted = options.only.split(",") if options.only else list(CASES)
    made = [Task(tier, kind, number, options.seed) for number in range(options.runs) for tier in TIERS for kind in wanted]
    kinds = [kind for kind in HEALTHY if not options.only or kind in wanted or options.healthy_too]
    made += [Task("", kind, number, options.seed) for number in range(options.healthy) for kind in kinds]
    made.sort(key=lambda task: task.number)
    part, of = (int(number) for number in options.part.split("/"))
    return made[part - 1 :: of]


def work(made: Sequence[Task], jobs: int, path: Path | None) -> list[tuple[Task, Outcome]]:
    """Run all tasks on some processes; each outcome is written to a file as soon as it is known."""
    found = []
    with multiprocessing.get_context("fork").Pool(max(jobs, 1)) as pool:
        for done in pool.imap_unordered(both, made, chunksize=4):
            found.append(done)
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps([list(done[0]), asdict(done[1])]) + "\n")
    return found


def both(task: Task) -> tuple[Task, Outcome]:
    """Return a task and what became of it."""
    return task, run(task)


def kept(path: Path) -> list[tuple[Task, Outcome]]:
    """Return the outcomes that `work` wrote to a file."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return [(Task(*task), Outcome(**outcome | {"wrong": tuple(outcome["wrong"])})) for task, outcome in lines]


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="faulty runs a class and tier")
    parser.add_argument("--healthy", type=int, default=24, help="healthy runs a kind")
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--quick", action="store_true", help="a look: 9 runs a class, 3 a healthy kind")
    parser.add_argument("--only", default="", help="classes, separated by commas")
    parser.add_argument("--healthy-too", action="store_true", help="healthy runs, too, with --only")
    parser.add_argument("--write", type=Path, help="the page of the documentation to write")
    parser.add_argument("--logs", type=Path, help="real logs for the second table of that page")
    parser.add_argument("--missed", action="store_true", help="print each fault missed and each false alarm")
    parser.add_argument("--json", type=Path, help="outcomes, one a line; runs whose outcome is in it are not made again")
    parser.add_argument("--read", type=Path, nargs="+", help="no runs: tables of the outcomes in these files")
    parser.add_argument("--part", default="1/1", help="1/3: the first third of the runs, for several machines")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.healthy = 9, 3
    return options


def main() -> None:
    """Run the bench and print its tables."""
    options = parsed()
    start = time.time()
    found = [done for path in options.read or () for done in kept(path)]
    if not options.read:
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            found = kept(options.json) if options.json.exists() else []
        known = {task for task, _ in found}
        found += work([task for task in tasks(options) if task not in known], options.jobs, options.json)
    kinds = options.only.split(",") if options.only else list(CASES)
    quiet = [item for task, item in found if not task.tier]
    for tier in TIERS:
        faulty = [item for task, item in found if task.tier == tier]
        print(f"\n### {tier} tier\n", *table(scores(kinds, faulty, quiet)), sep="\n")
        if tier == "standard" and quiet:
            print("\n### Baselines\n", *baseline_table(faulty, quiet), sep="\n")
    if quiet:
        print("\n### Healthy runs\n", *alarm_table(quiet), sep="\n")
    if options.write:
        options.write.write_text(report(found, kinds, options.logs), encoding="utf-8")
    if options.missed:
        for task, item in sorted(found, key=lambda pair: pair[0]):
            if item.wrong or (task.tier and not item.hit):
                print(f"{task.tier:8} {task.kind:20} {task.number:3} {item.form:10} {item.rows:6} hit={item.hit} {item.wrong}")
    print(
        f"\n{len(found):,} runs, {sum(item.rows for _, item in found):,} rows, {time.time() - start:.0f} s, jobs {options.jobs}"
    )


if __name__ == "__main__":
    main()

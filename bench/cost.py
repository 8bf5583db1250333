"""How right time and cost are: simulated runs printed as logs of seven kinds, read back by the real reader.

Usage: python bench/cost.py [--runs 4] [--plan 4000] [--logs FOLDER] [--json bench/out/cost.json]

Error and coverage of the time left at 10, 25 and 50 % of healthy runs (time left of the log's own clock, up to the end of
the last step), beside what nobody can foresee; the same beside the time left that the logs print themselves; for runs that
hang, are restarted or slow down; the ledger against the truth; the meaning of epoch_time in logs of three kinds.
With --logs also the real logs of a folder with a MANIFEST.tsv, and how much their pace jitters, wanders and drifts.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.ledger import ledger
from analysis.segment import Segment
from analysis.simulate_text import STYLES, printed
from analysis.simulate_time import FAULTS, HABITS, TimedRun, timed
from analysis.time_left import time_left
from bench.cost_logs import SHARES, paces, real, show_habits
from bench.cost_meanings import ask
from bench.cost_meanings import show as show_meanings
from server.service import to_segments
from storage.reader import read_file

WITH_A_PACE = [style for style in STYLES if style != "csv"]  # step time alone does not see what lies between steps
RARE = ("rare_checkpoints",)  # pauses too rare to be seen early: shown, not counted
BY_HAND = "mean so far"  # of the true clock, every step known: what one would do by hand
ORACLE = "chance alone"  # the same, start-up and all pauses to come known to the second
PRINTED = {"hf_dict": "remaining_seconds", "llama_factory": "remaining_seconds", "mmengine": "eta_seconds"}


def read(text: str) -> list[Segment]:
    """Return the launches of a log, through the reader."""
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        file.write(text)
        file.flush()
        result = read_file(file.name)
    return to_segments(result.rows, result.events, dict(result.report.config))


def truth_left(run: TimedRun, now: TimedRun, log_every: int) -> float:
    """Return the seconds from the last printed line to the end of the last step."""
    return float(run.launches[-1].ends[-1] - now.launches[-1].ends[-1])


def time_left_table(runs: int, plan: int, habits: list[str], faults: list[str | None]) -> list[dict[str, Any]]:
    """Return one line for each estimate: its error, and whether the ranges held the truth."""
    lines = []
    for number in range(runs):
        for habit in habits:
            for fault in faults:
                run = timed(plan=plan, seed=100 + number, habit=habit, fault=fault)
                for share in SHARES:
                    now = run.until(share)
                    left = truth_left(run, now, 10)
                    found = [_judge(run, now, left, style, share) for style in STYLES] + _baselines(run, now, left, share)
                    lines += [line | {"habit": habit, "fault": fault, "run": number} for line in found]
    return lines


def _baselines(run: TimedRun, now: TimedRun, left: float, share: float) -> list[dict[str, Any]]:
    """Return what one would say by hand, and what one would say knowing everything but how long the steps to come take."""
    ends, whole, done = now.launches[-1].ends, run.launches[-1].step_s, len(now.launches[-1].steps)
    pace = (ends[-1] - ends[min(10, len(ends) - 2)]) / max(len(ends) - 11, 1)
    steps_to_come = run.plan - now.launches[-1].steps[-1]
    pauses = left - float(whole[done:].sum())
    told = {BY_HAND: pace * steps_to_come, ORACLE: float(whole[1:done].mean()) * steps_to_come + pauses}
    known = {"share": share, "told": True, "in80": False, "in90": False}
    return [known | {"style": name, "error": value / left - 1} for name, value in told.items()]


def _judge(run: TimedRun, now: TimedRun, left: float, style: str, share: float) -> dict[str, Any]:
    segments = read(printed(now, style))
    estimate = time_left(segments)
    line: dict[str, Any] = {"style": style, "share": share, "told": estimate is not None}
    if style in PRINTED:
        line["theirs"] = float(segments[-1].values(PRINTED[style])[-1]) / left - 1
    if estimate is None:
        return line
    if style == "csv":  # what its clock can see of the rest: the steps
        left = float(run.launches[-1].step_s[-(run.plan - now.launches[-1].steps[-1]) :].sum())
    return line | {
        "error": estimate.p50 / left - 1,
        "in80": estimate.p10 <= left <= estimate.p90,
        "in90": estimate.p5 <= left <= estimate.p95,
    }


def show(title: str, lines: list[dict[str, Any]], by: str, *, ranges: bool = True) -> None:
    """Print median error, 90th percentile of it and coverage by share and a second key; of all, how sure the median is."""
    print(f"\n{title}")
    print(f"{by:18}" + "".join(f"   {int(100 * s):3d} %: med  p90   80%  90%" for s in SHARES))
    for key in [*dict.fromkeys(line[by] for line in lines), "all"]:
        cells = []
        for share in SHARES:
            part = [x for x in lines if x["share"] == share and key in (x[by], "all") and x["told"]]
            if not part:
                cells.append(" " * 32)
                continue
            error = np.abs([x["error"] for x in part])
            inside = [f"{np.mean([x[name] for x in part]):4.0%}" if ranges else "   –" for name in ("in80", "in90")]
            cells.append(f"      {np.median(error):6.2%} {np.percentile(error, 90):6.1%} {inside[0]} {inside[1]}  ")
        print(f"{key!s:18}" + "".join(cells))
    sure = (sureness([x for x in lines if x["share"] == share and x["told"]]) for share in SHARES)
    print(f"{'90 % interval':18}" + "".join(f"      {low:6.2%} to {high:6.2%}      " for low, high in sure))


def sureness(lines: list[dict[str, Any]], draws: int = 1000) -> tuple[float, float]:
    """Return the 90 % interval of the median error: runs drawn again, each with all its logs."""
    if not lines:
        return float("nan"), float("nan")
    runs: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for line in lines:
        runs[line["habit"], line["fault"], line["run"]].append(abs(line["error"]))
    each, random = list(runs.values()), np.random.default_rng(0)
    drawn = [np.median(np.concatenate([each[at] for at in random.integers(0, len(each), len(each))])) for _draw in range(draws)]
    low, high = np.percentile(drawn, [5, 95])
    return float(low), float(high)


def beside(lines: list[dict[str, Any]]) -> None:
    """Print our median error beside that of the time left which the log prints itself."""
    print("\nhealthy runs beside the time left that the log prints (median error: ours, theirs)")
    for style in PRINTED:
        cells = []
        for share in SHARES:
            part = [x for x in lines if x["style"] == style and x["share"] == share and x["told"]]
            ours, theirs = (np.median(np.abs([x[name] for x in part])) for name in ("error", "theirs"))
            cells.append(f"   {int(100 * share):3d} %: {ours:6.2%} {theirs:6.2%}")
        print(f"  {style:18}" + "".join(cells))


def ledgers(runs: int, plan: int) -> dict[str, Any]:
    """Compare the ledger of whole runs with the truth: largest miss of the sum, and the parts in seconds."""
    worst, found = 0.0, defaultdict(list)
    names = {"lost_steps": "lost_steps", "dead_gaps": "dead_gaps", "hang": "hangs", "slow": "slow", "pauses": "pauses"}
    for number in range(runs):
        for habit in ("steady", "both", "checkpoints", "noisy"):
            for fault in (None, *FAULTS):
                run = timed(plan=plan, seed=300 + number, habit=habit, fault=fault)
                for style in ("jsonl", "megatron", "modded_nanogpt", "hf_dict"):
                    book = ledger(read(printed(run, style)))
                    assert book is not None
                    worst = max(worst, abs(sum(item.seconds for item in book.items) / book.seconds - 1))
                    for told, item in names.items():
                        clockless = told == "dead_gaps" and style in ("modded_nanogpt", "hf_dict")
                        if run.truth.get(told) and not clockless:
                            found[told, style].append(book.part(item) / run.truth[told])
    return {"worst_sum": worst, "found": {f"{a} {b}": (np.median(v), len(v)) for (a, b), v in found.items()}}


def speed() -> float:
    """Return CPU seconds for the ledger and the time left of a million rows."""
    steps = np.arange(1, 1_000_001)
    random = np.random.default_rng(0)
    ends = np.cumsum(0.4 * np.exp(0.03 * random.standard_normal(len(steps))))
    stamps = (
        (pd.Timestamp("2024-05-06").value + (1e9 * ends).astype(np.int64)).astype("datetime64[ns]").astype("datetime64[ms]")
    )
    frame = pd.DataFrame({"line": steps, "step": steps, "timestamp": stamps, "loss": 2.0 + 1 / steps})
    segment = Segment(0, frame, total_steps=2_000_000)
    start = time.process_time()
    ledger([segment])
    time_left([segment])
    return time.process_time() - start


def main() -> None:
    """Run the bench and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--plan", type=int, default=4000)
    parser.add_argument("--meanings", type=int, default=600)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    start = time.process_time()
    everything = time_left_table(options.runs, options.plan, list(HABITS), [None])
    healthy = [line for line in everything if line["style"] not in (BY_HAND, ORACLE)]
    counted = [line for line in healthy if line["habit"] not in RARE]
    other = [line for line in everything if line["style"] in (BY_HAND, ORACLE) and line["habit"] not in RARE]
    show("healthy runs, by how they spend their time", healthy, "habit")
    show("healthy runs, by log (without rare checkpoints)", counted, "style")
    for name in (BY_HAND, ORACLE):
        show("the same from the true clock of every step", [x for x in other if x["style"] == name], "style", ranges=False)
    beside(counted)
    faulty = time_left_table(options.runs, options.plan, ["steady", "both"], list(FAULTS))
    show("faulty runs (fault at 35 %)", [line for line in faulty if line["style"] in WITH_A_PACE], "fault")
    books = ledgers(max(options.runs // 2, 1), options.plan)
    print(f"\nledger: parts miss their sum by {books['worst_sum']:.2e} at most; found over true seconds (median, runs):")
    for key, (ratio, count) in sorted(books["found"].items()):
        print(f"  {key:28} {ratio:5.2f}  {count}")
    print("\nmeaning of epoch_time, healthy runs")
    known, why = ask(options.meanings)
    show_meanings(known, why)
    print("\nmeaning of epoch_time, runs that hang or slow down within the lines")
    faulty_known, _none = ask(options.meanings // 2, faulty=True, explain=False)
    show_meanings(faulty_known, _none)
    cpu = speed()
    print(f"\n1,000,000 rows: ledger and time left in {cpu:.2f} s CPU")
    if options.logs:
        real(options.logs)
        paces(options.logs)
        for habit in HABITS:
            show_habits(f"simulated {habit}", [read(printed(timed(seed=500 + at, habit=habit), "jsonl"))[0] for at in range(5)])
    print(f"{time.process_time() - start:.0f} s CPU")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        told = {" | ".join(map(str, key)): count for key, count in known.items()}
        answer = {"healthy": healthy, "faulty": faulty, "ledger": books, "meanings": told, "cpu_1m": cpu}
        options.json.write_text(json.dumps(answer, indent=1, default=float))


if __name__ == "__main__":
    main()

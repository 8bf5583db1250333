"""How well golden runs tell sick ones apart: the area under the curve, on simulated runs that the library does not hold.

Usage: python bench/golden.py [--runs 4] [--seed 5000] [--write]

--write makes the library that ships with the product anew (analysis/golden.json). Sick runs are one of each fault of both
simulators; healthy ones of each kind. All are compared within their profile.
"""

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis import simulate as lab
from analysis import simulate_hardware as machine
from analysis.golden import Case, Comparison, case_of, compare
from analysis.segment import Segment
from server.golden import SHIPPED, shipped

ROWS = 3000
HARD = ("curriculum", "blips", "late_plateau", "batch_ramp")  # healthy, but nobody's model of a good run
GOLDEN_A_KIND = {
    "pretrain": 16,
    "wsd": 8,
    "linear": 8,
    "constant": 8,
    "moe": 8,
    "small_batch": 8,
    "large_batch": 8,
    "fine_tune": 14,
}
SEEDS = 900


def written(segment: Segment, title: str, kind: str = "") -> Case:
    """Return a simulated run as a case."""
    case = case_of(segment, title, kind=kind)
    assert isinstance(case, Case), case
    return case


def sick(source: ModuleType, fault: str, seed: int, kind: str | None = None) -> Case | None:
    """Return a faulty run as a case; of a mixture of experts where its fault needs one, None where no loss is left."""
    kinds = [kind] if kind else ["moe" if fault.startswith(("aux", "dense", "decomp")) else "pretrain"]
    named = {"kind": kinds[0]} if source is lab else {}
    run = source.simulate(rows=ROWS, seed=seed, fault=fault, **named)
    case = case_of(run.segment, fault, kind=run.labels[0].kind)
    return case if isinstance(case, Case) else None


def library() -> list[Case]:
    """Return the golden runs and the failure patterns that ship."""
    found = []
    for kind, count in GOLDEN_A_KIND.items():
        for number in range(count):
            seed, rows = SEEDS + number, ROWS + 500 * (number % 3)
            run = machine.simulate(rows=rows, seed=seed) if kind == "pretrain" and number % 2 else None
            segment = (run or lab.simulate(rows=rows, seed=seed, kind=kind)).segment
            found.append(written(segment, kind))
    faulty = [sick(source, fault, SEEDS) for source in (lab, machine) for fault in source.FAULTS]
    faulty += [sick(lab, fault, SEEDS, "fine_tune") for fault in lab.FAULTS]
    return found + [case for case in faulty if case is not None]


def distances(runs: int, seed: int) -> tuple[list[float], list[float], int, int]:
    """Return how far healthy and sick runs are over the limit, and how often the nearest failures name the class."""
    golden, failures = shipped()
    healthy, ill, named, asked = [], [], 0, 0
    for number in range(runs):
        for kind in (kind for kind in GOLDEN_A_KIND if kind not in HARD):
            found = compare(written(lab.simulate(rows=ROWS, seed=seed + number, kind=kind).segment, kind), golden)
            healthy.append(_over(found))
        healthy.append(_over(compare(written(machine.simulate(rows=ROWS, seed=seed + number).segment, ""), golden)))
        for source, fault in [(each, fault) for each in (lab, machine) for fault in each.FAULTS]:
            case = sick(source, fault, seed + number)
            found = compare(case, golden, failures) if case else None
            if isinstance(found, Comparison):
                ill.append(_over(found))
                named, asked = named + (case.kind in {near.case.kind for near in found.failures}), asked + 1
    return healthy, ill, named, asked


def _over(found: object) -> float:
    assert isinstance(found, Comparison), found
    return found.distance / found.limit


def main() -> None:
    """Run the bench, or write the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        cases = [case.to_dict() for case in library()]
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        SHIPPED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"{len(cases)} cases, {SHIPPED.stat().st_size:,} bytes")
        return
    healthy, ill, named, asked = distances(options.runs, options.seed)
    area = float(np.mean([(one > np.array(healthy)).mean() + 0.5 * (one == np.array(healthy)).mean() for one in ill]))
    print(f"{len(healthy)} healthy and {len(ill)} sick runs: area under the curve {area:.3f}")
    print(f"over the limit: {np.mean(np.array(healthy) > 1):.1%} of healthy, {np.mean(np.array(ill) > 1):.1%} of sick runs")
    print(f"the class is among the three nearest failures: {named / asked:.1%}")


if __name__ == "__main__":
    main()

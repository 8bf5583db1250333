"""CPU seconds of the diagnosis of a run of many rows: cutting, every rule, the verdict, the time left.

Usage: python bench/rules.py [--rows 1000000]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.diagnose import diagnose
from analysis.registry import all_rules
from analysis.segment import split_segments
from analysis.simulate import simulate
from analysis.time_left import time_left


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Run `work`, print its CPU seconds, return its result."""
    start = time.process_time()
    result = work()
    print(f"{name:24} {time.process_time() - start:7.3f} s")
    return result


def main() -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    frame = simulate(rows=options.rows, seed=1, kind="moe").segment.rows
    table = pa.Table.from_pandas(frame, preserve_index=False).append_column("kind", pa.array(["train"] * len(frame)))
    (segment,) = timed("split_segments", lambda: split_segments(table, total_steps=options.rows))
    timed("diagnose (all rules)", lambda: diagnose([segment]))
    timed("time_left", lambda: time_left([segment]))
    fresh = replace(segment)
    for rule in all_rules():
        timed(f"  {rule.name}", lambda rule=rule: list(rule.check(fresh)))


if __name__ == "__main__":
    main()

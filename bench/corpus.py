"""Read every log of a folder with a MANIFEST.tsv and compare with what it says: python bench/corpus.py FOLDER.

Prints one line a log: the format found, then records, first and last step (as printed), first and last loss, read
against expected. Exit code 1 if a log could not be read at all by accident (an exception that is not UnreadableLog).
"""

import argparse
import csv
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import pyarrow.compute as pc

from storage.reader import read_file
from storage.types import UnreadableLog

MEASURES = {"train": ("loss", "policy_loss", "reward"), "telemetry": ("gpu_utilization_percent", "gpu_power_watts")}
KEYS = ("train_records", "first_step", "last_step", "first_loss", "last_loss")


def read(path: Path) -> dict[str, Any]:
    """Return what MANIFEST.tsv lists, as read; steps as printed, losses of the first and last training record.

    A log of hardware telemetry has no training records: there its rows count, with their time and what they measure.
    """
    rows, _, report = read_file(path)
    kind = "train" if report.records or not rows.num_rows else "telemetry"
    train = rows.filter(pc.equal(rows["kind"], kind))
    losses = next((train[name] for name in MEASURES[kind] if name in train.column_names), None)
    steps = train["step_printed"] if kind == "train" else pc.strftime(train["timestamp"], "%Y/%m/%d %H:%M:%S")
    return {
        "format": report.format or "-",
        "train_records": train.num_rows,
        "first_step": steps[0].as_py() if len(steps) else None,
        "last_step": steps[-1].as_py() if len(steps) else None,
        "first_loss": losses[0].as_py() if losses is not None and len(losses) else None,
        "last_loss": losses[-1].as_py() if losses is not None and len(losses) else None,
        "segments": report.segments,
        "eval": report.eval_records,
        "unparsed": report.unparsed_count,
        "notes": [note.render() for note in report.notes],
    }


def same(wanted: str, got: Any) -> bool:
    """Say whether a value of the manifest (text) and one that was read are the same number, or both are missing."""
    if wanted in ("-", ""):
        return True
    if got is None:
        return False
    if isinstance(got, str):
        return got == wanted
    try:
        number = float(wanted.removesuffix(" %"))
    except ValueError:
        return False
    return number == got or (number != number and got != got)


def main() -> None:
    """Print the table and write bench/out/corpus.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="ids that begin so")
    arguments = parser.parse_args()
    results, exact, crashed = [], 0, 0
    with open(arguments.folder / "MANIFEST.tsv", encoding="utf-8") as source:
        wanted = [row for row in csv.DictReader(source, delimiter="\t") if row["id"].startswith(arguments.only)]
    for row in wanted:
        start = time.perf_counter()
        try:
            got = read(arguments.folder / row["file"])
        except UnreadableLog as error:
            got = {"format": f"({error.code})", "train_records": 0, "segments": 0, "eval": 0, "unparsed": 0}
        except Exception:
            traceback.print_exc()
            got, crashed = {"format": "CRASH"}, crashed + 1
        seconds = time.perf_counter() - start
        marks = [same(row[key], got.get(key)) for key in KEYS]
        exact += all(marks)
        cells = [f"{got.get(key)!s:.10}{'' if ok else ' ≠ ' + row[key][:12]}" for key, ok in zip(KEYS, marks, strict=True)]
        sign = "ok " if all(marks) else "NOT"
        rest = f"seg {got.get('segments')} eval {got.get('eval')} unparsed {got.get('unparsed')} {seconds:.2f}s"
        print(f"{sign} {row['id']} {got['format']:<18.18} {' | '.join(cells)}  {rest}")
        results.append({"id": row["id"], "exact": all(marks), "seconds": seconds, **got})
    print(f"{exact} of {len(wanted)} exact, {crashed} crashed")
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "corpus.json").write_text(json.dumps(results, indent=1, default=str))
    sys.exit(1 if crashed else 0)


if __name__ == "__main__":
    main()

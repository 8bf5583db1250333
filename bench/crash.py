"""Kill the ingest of a long log with -9 again and again: afterwards nothing is lost, nothing is there twice.

    python bench/crash.py --kills 30              # --kills 200 for the full proof
    python bench/crash.py --lines 200000 --pieces 40

One process ingests the log as it grows, a transaction a piece, publishes it and moves its rows to Parquet now and then, and
writes what it is doing to a pipe; the other kills it at a random moment or in a phase chosen at random (PHASES). After each
kill the store is opened and checked against the log: rows, distinct lines, aggregates, last values, original bytes, offset.
Another process lets a finished run age and is killed in AGEING phases: what the aggregates say must stay as it was, and
lines and rows have gone as the policy says or are all there. A third one watches a folder in which logs appear and grow and
is killed in WATCHING phases: each log must be one run that holds each line once. Further: SIGSTOP and resume, a full disk
(small tmpfs, when allowed to mount one), a write-ahead log cut at random places.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from storage.intake.ingest import ingest_file  # noqa: E402
from storage.intake.origins import Origins  # noqa: E402
from storage.intake.watch import Watcher  # noqa: E402
from storage.keeping import archive, changes, originals, parquet, retention, state, warehouse, writer  # noqa: E402
from storage.keeping.retention import Policy  # noqa: E402
from storage.keeping.sources import Watched  # noqa: E402
from storage.reader import LogReader  # noqa: E402
from storage.store import Store, StoreError  # noqa: E402

METRICS = ("loss", "lr")
PHASES = ("parse", "insert", "aggregate", "archive", "prepared", "commit", "after", "publish", "parquet", "cool", "tiered")
AGEING = ("age", "drop rows", "cells", "drop lines", "archive", "tiered", "commit", "clean")
WATCHING = ("parse", "run", "archive", "commit", "told")
WATCHED_LINES = 40  # of a log at a time, at most
POLICY = Policy(lines_days=1, rows_days=1, aggregates_days=None, around=50)
TIER_EVERY = 5  # pieces


def line(step: int) -> str:
    """One line of the log; its loss tells its step."""
    return (
        f"Epoch:[1/1]({step}/99999999) loss:{(step * 37 % 100_003) / 1e4:.4f} lr:{1e-4 + step * 1e-12:.12f} epoch_time:3.0min\n"
    )


def announce(target: Any, name: str, phase: str) -> None:
    """Print the phase whenever a function is called."""
    original = getattr(target, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        print(phase, flush=True)
        return original(*args, **options)

    setattr(target, name, wrapped)


def worker(folder: Path, log: Path, pieces: int) -> None:
    """Ingest the log as it grows; print the phase whenever it changes."""
    announce(LogReader, "feed", "parse")
    announce(writer.RunWriter, "_insert_rows", "insert")
    announce(writer.RunWriter, "_hand_over_cells", "aggregate")
    announce(originals.Originals, "finish", "archive")
    announce(changes.Changes, "save_runs", "commit")
    announce(state.RunState, "kept", "prepared")
    for name, phase in (("publish", "publish"), ("write", "parquet"), ("cool", "cool")):
        announce(parquet, name, phase)
    announce(warehouse.Warehouse, "commit", "tiered")
    content = log.read_bytes()
    growing = folder / "growing.log"
    with Store(folder / "data") as store:
        runs = store.runs()
        done = runs[0].offset if runs else 0
        step = -(-len(content) // pieces)
        while done < len(content):
            # Ends within a line: what is not complete must wait or be read again.
            done = min(len(content), done + step + random.randrange(100))
            growing.write_bytes(content[:done])
            run = ingest_file(store, growing).run_id
            if done // step % TIER_EVERY == 0:
                store.publish(run)
                store.cool(-1)
            print("after", flush=True)
    print("finished", flush=True)


def ager(folder: Path) -> None:
    """Let the only run of a store age; print the phase whenever it changes."""
    announce(retention, "apply", "age")
    announce(retention, "drop_rows", "drop rows")
    announce(retention, "insert", "cells")
    announce(retention, "drop_lines", "drop lines")
    announce(archive.ArchiveFile, "sync", "archive")
    announce(warehouse.Warehouse, "commit", "tiered")
    announce(parquet, "clean", "clean")
    with Store(folder / "data") as store:
        store.retention(POLICY, at=datetime.now(UTC) + timedelta(days=30))
        print("commit", flush=True)
    print("finished", flush=True)


def watching(folder: Path) -> None:
    """Watch a folder until killed; print the phase whenever it changes."""
    announce(LogReader, "feed", "parse")
    announce(writer, "make_rows_table", "run")
    announce(originals.Originals, "finish", "archive")
    announce(changes.Changes, "save_runs", "commit")
    announce(Origins, "fed", "told")
    with Store(folder / "data") as store:
        watcher = Watcher(store, [Watched(str(folder / "logs"))])
        while True:
            watcher.poll()


def check(folder: Path, content: bytes) -> dict[str, int]:
    """Compare all the store holds with the log up to its offset; raise AssertionError where they differ."""
    with Store(folder / "data") as store:
        runs = store.runs()
        if not runs:
            return {"rows": 0, "offset": 0}
        assert len(runs) == 1, f"{len(runs)} runs"
        run = runs[0]
        read = content[: run.offset]
        kept = b"".join(store.original(run.id))
        assert kept == read, f"original bytes: {len(kept)} of {len(read)}"
        whole = read.count(b"\n")
        rows = store.frame(run.id, ["line", "step", "loss"], kind=None)
        lines = rows["line"].to_pylist()
        assert lines == list(range(1, len(lines) + 1)), "a line is missing or twice"
        assert len(lines) - whole in (0, 1), f"{len(lines)} rows of {whole} lines"
        assert len(lines) == run.rows
        for name in METRICS:
            buckets = store.buckets(run.id, [name], width=20)
            assert int(buckets["count"].sum()) == len(lines), f"aggregates of {name}"
        latest = store.latest([run.id]).set_index("metric")
        assert latest.loc["loss", "step"] == rows["step"][-1].as_py()
        assert store.report(run.id).bytes == run.offset
        return {"rows": run.rows, "offset": run.offset}


def start(folder: Path, log: Path, pieces: int) -> subprocess.Popen[str]:
    """Start a worker in a process of its own."""
    return _start("--worker", str(folder), "--log", str(log), "--pieces", str(pieces))


def _start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True, bufsize=1)


def kill_in(process: subprocess.Popen[str], phase: str | None, patience: float, *, most: int = 5, ends: bool = True) -> str:
    """Kill -9 when the worker is in the phase, up to the `most`-th time (None: at any moment); return where it died.

    One that never `ends` by itself is killed after `patience` seconds in any case.
    """
    last, stop = "start", time.monotonic() + (random.random() if phase is None else 1) * patience
    os.set_blocking(process.stdout.fileno(), False)
    count = random.randint(1, most)
    while process.poll() is None:
        if said := process.stdout.readline().strip():
            last = said
            count -= said == phase
        if last == "finished":
            break
        late = time.monotonic() > stop and (phase is None or not ends)
        if late or (last == phase and count <= 0):
            time.sleep(random.random() * 0.02)
            process.kill()
            break
        time.sleep(0.0002)
    process.wait()
    os.set_blocking(process.stdout.fileno(), True)
    rest = process.stdout.read().split()
    return rest[-1] if rest else last


def kills(folder: Path, log: Path, content: bytes, options: argparse.Namespace) -> dict[str, Any]:
    """Kill until it was killed often enough; the log is begun anew whenever it is finished."""
    died: Counter[str] = Counter()
    problems: list[str] = []
    rounds = 0
    while sum(died.values()) < options.kills:
        phase = random.choice([None, *PHASES])
        where = kill_in(start(folder, log, options.pieces), phase, options.patience)
        try:
            found = check(folder, content)
        except (AssertionError, StoreError) as error:
            problems.append(f"after a kill in {where}: {error}")
            print("PROBLEM", problems[-1], flush=True)
            found = {"rows": 0, "offset": len(content)}
        if where != "finished":
            died[where] += 1
            print(f"\r{sum(died.values())} kills, offset {found['offset']:,}   ", end="", flush=True)
        if found["offset"] >= len(content):
            rounds += 1
            shutil.rmtree(folder / "data")
    start(folder, log, options.pieces).communicate()
    found = check(folder, content)
    print()
    return {"kills": dict(died), "rounds": rounds, "problems": problems, "rows": found["rows"], "offset": found["offset"]}


def aged(folder: Path, content: bytes, options: argparse.Namespace) -> dict[str, Any]:
    """Kill while a run ages; what its aggregates say stays, and lines and rows have gone as a whole or not at all."""
    base = folder / "base"
    with Store(base / "data") as store:
        log = folder / "aged.log"
        log.write_bytes(content[: content.rfind(b"\n", 0, 4_000_000) + 1])
        run = ingest_file(store, log).run_id
        store.publish(run)
        for profile in ("robust", "articles"):
            found = {"findings": [{"first_line": 5000, "last_line": 5010}]}
            store.save_diagnosis(run, profile, store.version(run), found)
        before = _summary(store, run)
    died, gone, problems = Counter[str](), Counter[str](), list[str]()
    while sum(died.values()) < max(1, options.kills // 4):
        shutil.rmtree(folder / "data", ignore_errors=True)
        shutil.copytree(base / "data", folder / "data")
        where = kill_in(_start("--ager", str(folder)), random.choice([None, *AGEING]), 1.5, most=2)
        died[where] += where != "finished"
        with Store(folder / "data") as store:
            faults = store.verify()
            if faults or _summary(store, run) != before:
                problems.append(f"ageing, after a kill in {where}: {faults or 'the aggregates differ'}")
            gone[f"lines {'kept' if store.all_kept(run) else 'gone'}, rows {'gone' if store.thinned(run) else 'kept'}"] += 1
    shutil.rmtree(folder / "data")
    shutil.rmtree(base)
    return {"kills": dict(died), "found": dict(gone), "problems": problems}


def watched(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Kill while logs appear and grow under watch: in the end each is one run that holds each of its lines once."""
    logs = folder / "logs"
    logs.mkdir()
    died: Counter[str] = Counter()
    lines: Counter[Path] = Counter()
    while sum(died.values()) < options.kills:
        for path in [*random.sample(list(lines), len(lines) // 2), *(logs / f"{len(lines) + new}.log" for new in range(10))]:
            first, lines[path] = lines[path] + 1, lines[path] + random.randint(1, WATCHED_LINES)
            with path.open("a") as log:
                log.write("".join(map(line, range(first, lines[path] + 1))))
        phase = random.choice([None, *WATCHING])
        died[kill_in(_start("--watching", str(folder)), phase, 3 * options.patience, ends=False)] += 1
    with Store(folder / "data") as store:
        Watcher(store, [Watched(str(logs))]).drain()
        problems = [problem for path, count in lines.items() if (problem := _not_as_written(store, path, count))]
        problems += [f"{len(store.runs())} runs of {len(lines)} logs"] if len(store.runs()) != len(lines) else []
    shutil.rmtree(folder / "data")
    shutil.rmtree(logs)
    return {"kills": dict(died), "logs": len(lines), "lines": sum(lines.values()), "problems": problems}


def _not_as_written(store: Store, path: Path, lines: int) -> str | None:
    """Say what the run of a watched log does not hold as it was written."""
    runs = [run for run in store.runs() if run.source == str(path)]
    if len(runs) != 1:
        return f"{path.name}: {len(runs)} runs"
    if store.frame(runs[0].id, ["step"], kind=None)["step"].to_pylist() != list(range(1, lines + 1)):
        return f"{path.name}: a line is missing or twice"
    return None if b"".join(store.original(runs[0].id)) == path.read_bytes() else f"{path.name}: original bytes"


def _summary(store: Store, run: str) -> list[Any]:
    """Return what no ageing may change: counts, least and largest values and where they are, at every width."""
    found = [store.buckets(run, [name], width=width) for name in METRICS for width in (1, 10, 300)]
    return [
        *((int(each["count"].sum()), int(each["nonfinite"].sum()), each["min"].min(), each["max"].max()) for each in found),
        store.run(run).rows,
        store.run(run).bytes,
    ]


def stopped(folder: Path, log: Path, content: bytes, options: argparse.Namespace) -> dict[str, Any]:
    """SIGSTOP and SIGCONT a few times: it goes on as if nothing had been."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    process = start(folder, log, options.pieces)
    for _ in range(5):
        time.sleep(random.random())
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
    process.communicate()
    return {"exit": process.returncode} | check(folder, content)


def torn(folder: Path, content: bytes) -> dict[str, Any]:
    """Cut the write-ahead log at random places: the store opens again with whole transactions, or says why not."""
    answers: Counter[str] = Counter()
    for _ in range(8):
        shutil.rmtree(folder / "torn", ignore_errors=True)
        (folder / "torn").mkdir()
        small = folder / "torn" / "log"
        (folder / "torn" / "base").mkdir()
        pid = os.fork()
        if pid == 0:
            store = Store(folder / "torn" / "data")
            for number in range(1, 21):
                small.write_bytes(content[: number * 5000])
                ingest_file(store, small)
            os._exit(0)  # no checkpoint: everything is in the write-ahead log
        os.waitpid(pid, 0)
        wal = folder / "torn" / "data" / "runvitals.duckdb.wal"
        size = wal.stat().st_size if wal.exists() else 0
        if size:
            os.truncate(wal, random.randrange(size))
        try:
            found = check(folder / "torn", content)
            answers["opened, whole transactions"] += 1
            assert found["offset"] <= 100_000
        except StoreError as error:
            answers[f"refused: {error}"[:100]] += 1
    return dict(answers)


def full_disk(folder: Path, content: bytes) -> dict[str, Any]:
    """Ingest onto a disk of 24 MB until it is full: an error, the store as it was, and all well once there is room."""
    place = folder / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True).returncode:
        return {"skipped": "no right to mount a tmpfs"}
    try:
        small, big = folder / "a.log", folder / "b.log"
        small.write_bytes(content[:500_000])
        big.write_bytes(content * (1 + 300_000_000 // len(content)))
        with Store(place / "data") as store:
            ingest_file(store, small)
            before = store.runs()
            filler = place / "filler"
            filler.write_bytes(bytes(12 << 20))
            try:
                ingest_file(store, big)
                return {"problem": "no error on a full disk"}
            except Exception as error:
                said = f"{type(error).__name__}: {error}"[:120]
            assert store.runs() == before, "runs changed"
        filler.unlink()
        return {"said": said} | check(place, content)
    finally:
        subprocess.run(["umount", str(place)], check=False)


def main() -> None:
    """Run everything and print what came of it; exit 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--pieces", type=int, default=40)
    parser.add_argument("--patience", type=float, default=4.0, help="seconds until a kill at a random moment, at most")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ager", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--watching", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.log, options.pieces)
        return
    if options.ager:
        ager(options.ager)
        return
    if options.watching:
        watching(options.watching)
        return
    random.seed(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="runvitals-crash-"))
    log = folder / "whole.log"
    log.write_text("".join(map(line, range(1, options.lines + 1))))
    content = log.read_bytes()
    results = {"seed": options.seed, "lines": options.lines, "log bytes": len(content)}
    results |= {"kill -9": kills(folder, log, content, options), "SIGSTOP": stopped(folder, log, content, options)}
    shutil.rmtree(folder / "data", ignore_errors=True)
    results |= {"ageing": aged(folder, content, options), "watch": watched(folder, options)}
    results |= {"torn write-ahead log": torn(folder, content), "full disk": full_disk(folder, content)}
    print(json.dumps(results, indent=1))
    (ROOT / "bench" / "out").mkdir(exist_ok=True)
    (ROOT / "bench" / "out" / "crash.json").write_text(json.dumps(results, indent=1))
    shutil.rmtree(folder)
    whole = results["kill -9"]["rows"] == options.lines and results["kill -9"]["offset"] == len(content)
    sys.exit(0 if whole and not any(results[part]["problems"] for part in ("kill -9", "ageing", "watch")) else 1)


if __name__ == "__main__":
    main()

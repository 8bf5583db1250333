"""kill -9 at any moment of a watch: afterwards every line is in the store once. (bench/crash.py does it many more times.)"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from storage.store import Store
from tests.storage.desk import lines, up_to

ROOT = Path(__file__).parents[2]
WATCH = """
import sys
from storage.keeping.sources import Watched
from storage.store import Store
from storage.intake.watch import Watcher
watcher = Watcher(Store(sys.argv[1]), [Watched(sys.argv[2])])
print("watching", flush=True)
while True:
    watcher.poll()
"""


def test_kills_while_logs_grow_and_rotate_lose_and_double_nothing(tmp_path):
    logs, data = tmp_path / "logs", tmp_path / "data"
    logs.mkdir()
    rng = random.Random(7)
    done = 0
    for life in range(6):
        watch = subprocess.Popen(
            [sys.executable, "-c", WATCH, str(data), str(logs)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert watch.stdout.readline() == "watching\n"
        for _ in range(rng.randrange(3, 9)):
            step = done + rng.randrange(1, 400)
            for name in ("a.log", "b.log"):
                with (logs / name).open("a") as log:
                    log.write(lines(done + 1, step))
            done = step
            time.sleep(rng.random() * 0.05)
        if life == 2:
            (logs / "a.log").rename(logs / "a.log.1")
        watch.send_signal(signal.SIGKILL)
        watch.wait()
    with Store(data) as store:
        Watcher(store, [Watched(str(logs))]).drain()
        runs = {run.name: run for run in store.runs()}
        assert set(runs) == {"a.log", "b.log"}
        for run in runs.values():
            assert store.frame(run.id, ["step"])["step"].to_pylist() == up_to(done)
            assert run.offset == (logs / run.name).stat().st_size
            pieces = [logs / f"{run.name}.1", logs / run.name]
            written = b"".join(piece.read_bytes() for piece in pieces if piece.exists())
            assert b"".join(store.original(run.id)) == written

"""The server as it is, which also writes down when rows were in the store and what its threads used; for bench/watch.py.

    python bench/stamped_server.py run app.py …      # as `python -m streamlit`; RUNVITALS_STAMPS names the file

A line of JSON each: `{"at": …, "run": …, "step": …}` when a run has got rows, `{"at": …, "judged": run}` when it was diagnosed,
`{"at": …, "cpu": {thread: seconds}}` twice a second (`all`: of the whole process). Times are seconds since 1970.
"""

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

EVERY_SECONDS = 0.5
NAMED = ("monitor", "watch", "alerts", "MainThread")


def cpu_of(thread: threading.Thread) -> float:
    """Return the CPU seconds of a thread of this process."""
    with open(f"/proc/self/task/{thread.native_id}/stat") as status:
        fields = status.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _say(out: TextIO, **what: Any) -> None:
    out.write(json.dumps({"at": time.time()} | what) + "\n")


def _use(out: TextIO) -> None:
    while True:
        time.sleep(EVERY_SECONDS)
        used = {thread.name: cpu_of(thread) for thread in threading.enumerate() if thread.name in NAMED}
        _say(out, cpu=used | {"all": time.process_time()})


def _stamp(out: TextIO) -> None:
    from server.arrivals import Arrivals
    from server.monitor import Monitor

    note, look = Arrivals._note, Monitor.look

    def stamped(self: Arrivals, run: Any) -> None:
        _say(out, run=run.id, step=run.last_step)
        note(self, run)

    def looked(self: Monitor, run: str) -> None:
        look(self, run)
        _say(out, judged=run)

    Arrivals._note = stamped  # type: ignore[method-assign]
    Monitor.look = looked  # type: ignore[method-assign]
    threading.Thread(target=_use, args=(out,), daemon=True).start()


if __name__ == "__main__":
    with open(os.environ["RUNVITALS_STAMPS"], "w", buffering=1, encoding="utf-8") as stamps:
        _stamp(stamps)
        runpy.run_module("streamlit", run_name="__main__", alter_sys=True)

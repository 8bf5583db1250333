"""A really started server for tests: `streamlit run app.py` on a free port with a data folder of its own."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
START_SECONDS = 180


@dataclass(frozen=True)
class Served:
    """A running server: its address, the folder of its store, its process."""

    url: str
    data_dir: Path
    pid: int


@contextmanager
def serving(
    data_dir: Path,
    log: Path,
    *,
    program: tuple[str, ...] = ("-m", "streamlit"),
    options: tuple[str, ...] = (),
    base: str = "",
    **environ: str,
) -> Iterator[Served]:
    """Start a server with a store in `data_dir` (`options` of `streamlit run`), and stop it at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, *program, "run", "app.py", "--server.port", str(port), *options]
    env = os.environ | {"RUNVITALS_DATA_DIR": str(data_dir)} | environ
    url = f"http://127.0.0.1:{port}{base}"
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out) as server:
        try:
            _wait(f"{url}/healthz", server, log)
            yield Served(url, data_dir, server.pid)
        finally:
            server.terminate()
            server.wait(120)


def _wait(url: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"The server did not start:\n{log.read_text(errors='replace')[-3000:]}")


def wait_for(check, seconds: float = 120.0):
    """Return what `check` returns once that is true; fail when it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := check():
            return found
        time.sleep(0.1)
    pytest.fail(f"not so within {seconds} s: {check()}")

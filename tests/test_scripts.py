"""The two commands of the README: they serve, they are safe to run again, and they say what is missing."""

import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.serving import ROOT, wait_for


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.skipif(not (ROOT / ".venv" / "installed-requirements.txt").is_file(), reason="set up by other means than scripts/")
def test_run_prints_its_address_and_serves_there(tmp_path):
    port = free_port()
    known = os.environ | {"RUNVITALS_DATA_DIR": str(tmp_path / "data")}
    with (tmp_path / "said").open("wb") as said:
        command = [str(ROOT / "scripts" / "run"), "--port", str(port), "--server.headless", "true"]
        server = subprocess.Popen(command, cwd=tmp_path, env=known, stdout=said, stderr=said)
        try:
            wait_for(lambda: answers(f"http://127.0.0.1:{port}/healthz"), 120)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(120)
    printed = (tmp_path / "said").read_text()
    assert f"http://localhost:{port}" in printed
    assert "Installing" not in printed  # what stands there already is not installed again


@pytest.mark.parametrize("script", ["run", "test"])
def test_without_python_a_sentence_says_what_to_install(tmp_path, script):
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("dirname", "cat", "rm", "cksum", "id", "nproc"):
        (tools / name).symlink_to(shutil.which(name))
    known = {"PATH": str(tools)}
    done = subprocess.run(["/bin/sh", f"scripts/{script}"], cwd=tmp_path, env=known, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt-get install python3" in done.stderr


def test_the_check_is_the_test_command_and_versions_are_exact():
    assert '/scripts/test"' in (ROOT / ".ci" / "run").read_text()
    for file in ("requirements.txt", "requirements-dev.txt"):
        lines = [line.split("#")[0].strip() for line in Path(ROOT / file).read_text().splitlines()]
        assert all(re.fullmatch(r"[A-Za-z0-9_.\[\],-]+==[0-9][0-9a-z.]*(\s*;.*)?", line) for line in lines if line), file


def set_up_before(folder: Path, *, playwright: str = "") -> dict[str, str]:
    """Return the environment of a checkout whose .venv is there already: its tools only say that they were called.

    playwright: the path of the browser that it has fetched, if any.
    """
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, folder / name)
    tools, ours = folder / "bin", folder / ".venv" / "bin"
    for each in (tools, ours):
        each.mkdir(parents=True)
    for name in ("dirname", "cat", "cksum", "nproc"):
        (tools / name).symlink_to(shutil.which(name))
    written = {
        tools / "id": "echo 1000",
        ours / "python": f'case "$*" in -) printf "%s" "{playwright}";; esac',
        **{ours / name: f"echo called {name}" for name in ("ruff", "mypy", "pytest")},
    }
    for path, line in written.items():
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    return {"PATH": str(tools)}


def run_tests_of(folder: Path, known: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "scripts/test"], cwd=folder, env=known, capture_output=True, text=True)


def test_a_chromium_is_the_named_one_else_that_on_the_path_else_the_one_of_playwright(tmp_path):
    known = set_up_before(tmp_path, playwright="/fetched/chrome")
    assert "pytest (Chromium: /fetched/chrome)" in run_tests_of(tmp_path, known).stdout
    for name in ("chromium", "own"):
        browser = tmp_path / "bin" / name
        browser.write_text("#!/bin/sh\n")
        browser.chmod(0o755)
    assert f"pytest (Chromium: {tmp_path / 'bin' / 'chromium'})" in run_tests_of(tmp_path, known).stdout
    done = run_tests_of(tmp_path, known | {"RUNVITALS_CHROMIUM": str(tmp_path / "bin" / "own")})
    assert f"pytest (Chromium: {tmp_path / 'bin' / 'own'})" in done.stdout
    assert done.returncode == 0
    assert "called pytest" in done.stdout


def test_without_any_chromium_a_sentence_says_what_to_install(tmp_path):
    done = run_tests_of(tmp_path, set_up_before(tmp_path))
    assert done.returncode != 0
    assert "No Chromium: install one" in done.stderr
    assert "called pytest" not in done.stdout


def bare_python(folder: Path) -> Path:
    """Return a Python that has none of our packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def test_the_command_line_takes_the_environment_of_the_scripts_or_says_what_to_install(tmp_path):
    shutil.copy(ROOT / "cli.py", tmp_path)
    command = [str(bare_python(tmp_path / "bare")), "cli.py", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)
    assert "pip install -r requirements.txt" in done.stderr
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho taken "$@"\n')
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "taken cli.py --help\n"

"""How soon a line is on an open page, and where the time goes; the part of bench/watch.py with a server and Chromium.

The stages of a line, each with its own column: *stored* from the line to its row in the store; *asked* from there to the moment
the browser asks for a rerun, or the server begins one by itself; *started* until the first message of its script is there;
*drawn* until the step is on the page. *rerun*: from asking to the end of a script, of every rerun. What the threads of the
server use is printed too.
"""

import base64
import bisect
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.conftest import FLAGS  # noqa: E402
from tests.serving import serving  # noqa: E402

FIRST = 70_001  # step of the first line that is written while the page is open: no other number there is like it
REST_SECONDS = 600.0  # at most; the server judges a thousand runs after its start: that is not what is measured
SPY = """(() => {
  const log = window.__log = {sent: [], received: [], seen: []};
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', event => log.received.push([Date.now(), event.data]));
    }
    send(data) { log.sent.push(Date.now()); super.send(data); }
  };
  let last = 0;
  const look = () => {
    for (const step of document.body.textContent.match(/7\\d,\\d{3}/g) || []) {
      const number = parseInt(step.replace(',', ''));
      if (number > last && number >= FIRST) { last = number; requestAnimationFrame(() => log.seen.push([Date.now(), number])); }
    }
  };
  new MutationObserver(look).observe(document, {subtree: true, childList: true, characterData: true});
})();""".replace("FIRST", str(FIRST))
TAKE = """async () => {
  const log = window.__log, text = async data => new Promise(done => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(',')[1] || '');
    reader.readAsDataURL(new Blob([data]));
  });
  const received = await Promise.all(log.received.map(async ([at, data]) => [at, await text(data)]));
  return {sent: log.sent, received, seen: log.seen};
}"""


@dataclass(frozen=True)
class Rerun:
    """A rerun of the page: when it was asked for, when its script began and ended for the browser (seconds since 1970), kB."""

    asked: float
    began: float
    ended: float
    kb: float


def open_page(playwright: Any, url: str) -> Page:
    """Open a page in Chromium that remembers what it sends, gets and shows."""
    path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium")
    browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    page: Page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(SPY)
    page.goto(url)
    page.wait_for_selector(".stVegaLiteChart", timeout=120_000)
    return page


def reruns(sent: list[float], received: list[tuple[float, str]]) -> list[Rerun]:
    """Return the reruns that ended, in order."""
    found: list[Rerun] = []
    began, size = 0.0, 0.0
    for at, text in received:
        data = base64.b64decode(text)
        size += len(data) / 1024
        kind = ForwardMsg.FromString(data).WhichOneof("type")
        if kind == "new_session":
            began = at
        elif kind == "script_finished" and began:
            asked = [one for one in sent if (found[-1].ended if found else 0.0) < one <= began]
            found.append(Rerun(asked[0] if asked else began, began, at, size))
            began, size = 0.0, 0.0
    return found


def stages(
    written: list[float], stored: list[tuple[float, int]], seen: list[tuple[float, int]], made: list[Rerun]
) -> dict[str, list[float]]:
    """Return for each stage the seconds of each line that was shown."""
    found: dict[str, list[float]] = {name: [] for name in ("latency", "stored", "asked", "started", "drawn")}
    began = [rerun.began for rerun in made]
    for count, line in enumerate(written):
        step = FIRST + count
        drawn = next((at for at, last in seen if last >= step), None)
        row = next((at for at, last in stored if last >= step), None)
        place = bisect.bisect_right(began, drawn or 0.0) - 1
        if drawn is None or row is None or place < 0:
            continue
        rerun = made[place]
        for name, seconds in (
            ("latency", drawn - line),
            ("stored", row - line),
            ("asked", rerun.asked - row),
            ("started", rerun.began - rerun.asked),
            ("drawn", drawn - rerun.began),
        ):
            found[name].append(seconds)
    return found


def measure(data: Path, folder: Path, run: str, writer: Any, log: str, seconds: float) -> dict[str, float]:
    """Open the page of a run, let `writer` write for so long, and return the figures; `log` is its key of the run's lines."""
    stamps = data.parent / "stamps.jsonl"
    program = (str(ROOT / "bench" / "stamped_server.py"),)
    environ = {"RUNVITALS_WATCH": str(folder), "RUNVITALS_STAMPS": str(stamps)}
    with serving(data, data.parent / "server.log", program=program, **environ) as served, sync_playwright() as playwright:
        _at_rest(stamps)
        page = open_page(playwright, f"{served.url}/health?run={run}&live=2")
        writer.start()
        page.wait_for_timeout(1000 * seconds)
        writer.stop.set()
        spied = page.evaluate(TAKE)
    said = [json.loads(line) for line in stamps.read_text().splitlines()]
    stored = [(one["at"], one["step"] or 0) for one in said if one.get("run") == run]
    return _result(writer.written[log], stored, spied) | _used(said, writer.written[log][0], writer.written[log][-1])


def _result(written: list[float], stored: list[tuple[float, int]], spied: dict[str, Any]) -> dict[str, float]:
    made = reruns([at / 1000 for at in spied["sent"]], [(at / 1000, text) for at, text in spied["received"]])
    live = [rerun for rerun in made if written[0] < rerun.asked < written[-1]]
    found = stages(written, stored, [(at / 1000, step) for at, step in spied["seen"]], made)
    found["rerun"] = [rerun.ended - rerun.asked for rerun in live]
    result: dict[str, float] = {"page: lines": len(found["latency"]), "page: reruns": len(live)}
    for name, values in found.items():
        result |= figures(f"page: {name}", values)
    return result | {"page: kB of a rerun": statistics.median(rerun.kb for rerun in live)}


def _at_rest(stamps: Path) -> None:
    """Wait until the server has judged what was unjudged when it started."""
    until, before = time.monotonic() + REST_SECONDS, 0.0
    while time.monotonic() < until:
        time.sleep(3)
        last = [one for one in map(json.loads, stamps.read_text().splitlines()) if "cpu" in one][-1:]
        now = last[0]["cpu"].get("monitor", 0.0) + last[0]["cpu"].get("watch", 0.0) if last else 0.0
        if before and now - before < 0.3:
            return
        before = now


def _used(said: list[dict[str, Any]], begin: float, end: float) -> dict[str, float]:
    """Return the share of a core that each thread of the server used, and what its monitor did with it."""
    during = [one for one in said if begin < one["at"] < end]
    cpu = [one for one in during if "cpu" in one]
    first, last, took = cpu[0]["cpu"], cpu[-1]["cpu"], cpu[-1]["at"] - cpu[0]["at"]
    shares = {f"server CPU, {name}": (used - first.get(name, 0.0)) / took for name, used in last.items()}
    judged = sum("judged" in one for one in during)
    each = 1000 * shares["server CPU, monitor"] * took / max(judged, 1)
    return shares | {"diagnoses a second": judged / took, "a diagnosis, ms CPU": each}


def figures(name: str, found: list[float]) -> dict[str, float]:
    """Return p50, p95 and the largest of seconds."""
    ordered = statistics.quantiles(found, n=20) if len(found) > 1 else [float("nan")] * 19
    return {f"{name} p50, s": ordered[9], f"{name} p95, s": ordered[18], f"{name} max, s": max(found, default=float("nan"))}


def on_page(make: Any, writer: Any, files: int, grow: int, seconds: float) -> dict[str, float]:
    """Measure with `files` logs of which `grow` grow, the one that is looked at among them."""
    from storage.intake.watch import Watcher
    from storage.keeping.sources import Watched
    from storage.store import Store

    with tempfile.TemporaryDirectory() as place:
        folder, data = Path(place) / "logs", Path(place) / "data"
        paths = make(folder, files, 20)
        with Store(data) as store:
            Watcher(store, [Watched(str(folder))]).drain()
            run = next(run for run in store.runs() if run.source == str(paths[0]))
        return measure(
            data, folder, run.id, writer([paths[0], *random.sample(paths[1:], grow - 1)], FIRST), paths[0].name, seconds
        )

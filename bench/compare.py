"""How often a comparison is right, and how quick it is: `python bench/compare.py [--pairs 400] [--runs 20 --steps 1000000]`.

Right: pairs of simulated runs whose true difference is 0, 0.5, 1 and 3 %; the law of the loss and its noise are those of
analysis/simulate.py (falling learning rate, Student-t noise carried on from row to row), the repeats of one configuration lie
apart as far as real ones do. Quick: runs written to a store of their own, then the whole comparison as the page asks for it,
in CPU seconds (the store's threads with it), with nothing remembered and again; and a sweep of 1,000 runs. Page: a real
server on that store, whose page Compare a WebSocket client opens and then asks for again, while the server has not yet judged
the runs, and when it has.
"""

import argparse
import asyncio
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import websockets

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from analysis.compare.align import Aligned
from analysis.compare.difference import SEED_SPREAD, difference
from bench.load import Viewer
from server.compare import comparison
from server.service import Service
from server.settings import Settings
from server.sweep import sweep_of
from storage.keeping.reports import NOT_READ
from storage.store import Store
from storage.types import ROW_SCHEMA, Batch
from tests.serving import serving

DIFFERENCES = (0.0, 0.005, 0.01, 0.03)
ROWS = (10, 20, 30, 60, 100, 200, 300, 500, 1000, 5000)
NOISES = {  # of a row, share of it carried on to the next, weight of the past in the average that is printed
    "calm (1 %)": (0.01, 0.2, 0.0),
    "usual (3 %)": (0.03, 0.4, 0.0),
    "wild (6 %)": (0.06, 0.4, 0.0),
    "carried 0.9 (1 %)": (0.01, 0.9, 0.0),
    "carried 0.95 (1 %)": (0.01, 0.95, 0.0),
    "carried 0.99 (1 %)": (0.01, 0.99, 0.0),
    "average 0.9 (3 %)": (0.03, 0.4, 0.9),
    "average 0.98 (3 %)": (0.03, 0.4, 0.98),
    "average 0.99 (3 %)": (0.03, 0.4, 0.99),
}


def noise(rng: np.random.Generator, rows: int, sigma: float, carried: float) -> np.ndarray:
    """Return noise of the log loss (rows,): Student-t with 8 degrees of freedom, a share carried on to the next row."""
    shocks = rng.standard_t(8, rows + 200) * sigma / math.sqrt(8 / 6) * math.sqrt(1 - carried**2)
    out = np.empty(len(shocks))
    level = 0.0
    for place, shock in enumerate(shocks):
        level = carried * level + shock
        out[place] = level
    return out[200:]


def curve(rng: np.random.Generator, rows: int, sigma: float, carried: float, past: float, shift: float) -> np.ndarray:
    """Return the log loss of a run (rows,), `shift` above the law, off it as a repeat is, and averaged as it is printed."""
    step = np.arange(1, rows + 1) * (10_000 / rows)
    law = np.log(1.7 + 12 * (step + 40) ** -0.4 - 0.1 * np.clip(step / 10_000 - 0.5, 0, 1))
    luck = rng.normal() * SEED_SPREAD / math.sqrt(2)
    return averaged(law + noise(rng, rows, sigma, carried) + math.log1p(shift) + luck, past)


def averaged(values: np.ndarray, past: float) -> np.ndarray:
    """Return the exponential moving average of values (n,) with this weight of the past, begun at the first."""
    out = np.empty(len(values))
    level = values[0]
    for place, value in enumerate(values):
        level = past * level + (1 - past) * value
        out[place] = level
    return out


def claimed(rows: int, kind: tuple[float, float, float], true: float, pairs: int) -> tuple[float, float]:
    """Return the shares of pairs in which the better run is called better, and in which the worse one is."""
    sigma, carried, past = kind
    rng = np.random.default_rng([rows, *(round(1000 * value) for value in (*kind, true))])
    right = wrong = 0
    for _ in range(pairs):
        y = np.array([curve(rng, rows, sigma, carried, past, shift) for shift in (0.0, true)])
        if rows > 400:  # as the curves of a comparison: means over 400 common points
            y = y[:, : rows // 400 * 400].reshape(2, 400, -1).mean(axis=2)
        told = difference(Aligned("loss", "step", np.arange(1.0, y.shape[1] + 1), y, True, (rows, rows)), 0, 1)
        right += told.first_is_better is True
        wrong += told.first_is_better is False
    return right / pairs, wrong / pairs


def calibration(pairs: int) -> list[dict[str, object]]:
    """Return a row for each noise and length: claims at each true difference."""
    found = []
    for name, kind in NOISES.items():
        for rows in ROWS:
            row: dict[str, object] = {"noise": name, "rows": rows}
            for true in DIFFERENCES:
                right, wrong = claimed(rows, kind, true, pairs)
                row[f"{true:.1%}"] = round(right + wrong if true == 0 else right, 3)
                if true:
                    row[f"wrong {true:.1%}"] = round(wrong, 3)
            found.append(row)
            print(json.dumps(row), flush=True)
    return found


def fill(store: Store, runs: int, steps: int) -> list[str]:
    """Write runs of so many steps, a row a step, in pieces; return their ids."""
    ids = []
    for number in range(runs):
        rng = np.random.default_rng(number)
        with store.writer(name=f"sweep-{number}") as writer:
            for first in range(0, steps, 250_000):
                writer.append(Batch(piece(rng, first, min(250_000, steps - first), number)))
            writer.commit(report=replace(NOT_READ, config=settings(number), lines=steps))
        ids.append(writer.run_id)
    return ids


def settings(number: int) -> dict[str, object]:
    """Return the configuration of a run of the sweep."""
    rng = np.random.default_rng(number)
    own = {f"option_{i}": round(rng.normal(), 3) for i in range(8)}
    rate = float(f"{10 ** rng.uniform(-4.5, -2.5):.2g}")
    return {"learning_rate": rate, "batch_size": int(rng.choice([16, 32, 64])), "world_size": 8, "max_seq_len": 1024, **own}


def piece(rng: np.random.Generator, first: int, count: int, number: int) -> pa.Table:
    """Return the next rows of a run."""
    step = np.arange(first + 1, first + count + 1)
    names = {"line": step, "kind": pa.array(["train"] * count), "segment": np.zeros(count, np.int32)}
    names |= {"step": step, "step_printed": pa.array(step)}
    arrays = [pa.array(names[f.name], f.type) if f.name in names else pa.nulls(count, f.type) for f in ROW_SCHEMA]
    rate = math.log10(float(settings(number)["learning_rate"]))  # type: ignore[arg-type]
    level = np.log(1.7 + 12 * (step + 40.0) ** -0.4) + 0.02 * (rate + 3.4) ** 2
    metrics = {
        "loss": np.exp(level + 0.03 * rng.standard_normal(count)),
        "lr": 10**rate * (1 + np.cos(np.pi * step / 1_200_000)) / 2,
        "grad_norm": np.exp(0.2 * rng.standard_normal(count)),
        "elapsed_seconds": 0.25 * step,
        "tokens_per_second": 4000 + 50 * rng.standard_normal(count),
    }
    columns = [pa.array(values.astype(float)) for values in metrics.values()]
    return pa.table([*arrays, *columns], names=[*ROW_SCHEMA.names, *metrics])


def spent(action: Callable[[], object]) -> tuple[float, float]:
    """Return (wall, CPU) milliseconds of an action, all threads of the process."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def speed(folder: Path, runs: int, steps: int) -> dict[str, float]:
    """Return what a comparison of long runs costs, first and again, and a sweep of many short ones."""
    service = Service.open(Settings(data_dir=folder))
    ids = [run.id for run in service.store.runs() if run.rows == steps][:runs]
    ids = ids if len(ids) == runs else fill(service.store, runs, steps)
    first, again = spent(lambda: comparison(service, ids)), spent(lambda: comparison(service, ids))
    other = spent(lambda: comparison(service, ids, axis="hours"))
    many = [run.id for run in service.store.runs() if run.rows == 200]
    many = many if len(many) == 1000 else fill(service.store, 1000, 200)
    swept = spent(lambda: sweep_of(service, many))
    service.close()
    names = ("comparison, nothing remembered", "comparison, again", "another axis", "sweep of 1,000 runs")
    return {
        f"{name}, {kind} ms": round(value, 1)
        for name, pair in zip(names, (first, again, other, swept), strict=True)
        for kind, value in zip(("wall", "CPU"), pair, strict=True)
    }


def page(folder: Path, runs: int, steps: int) -> dict[str, float]:
    """Return milliseconds until the page Compare has all it shows of long runs: not yet judged, judged, and asked for again."""
    with Store(folder) as store:
        ids = fill(store, runs, steps)
    found = {"page, the runs not yet judged, ms": opened(folder, ids)[0]}
    service = Service.open(Settings(data_dir=folder))
    for run in ids:
        service.diagnosis(run)
    service.close()
    first, *again = opened(folder, ids)
    return found | {"page, nothing remembered, ms": first, "page, again, ms": statistics.median(again)}


def opened(folder: Path, ids: list[str], times: int = 10) -> list[float]:
    """Return how many milliseconds a new server takes, which has only shown the empty page, each time that it is asked."""
    with serving(folder, folder.with_suffix(".log")) as served:
        time.sleep(2)
        asyncio.run(_asked(served.url, "", 1))
        return asyncio.run(_asked(served.url, f"runs={','.join(ids)}", times))


async def _asked(url: str, query: str, times: int) -> list[float]:
    viewer = Viewer(url, query, name="compare")
    stream = url.replace("http", "ws", 1) + "/_stcore/stream"
    async with websockets.connect(stream, subprotocols=["streamlit"], max_size=None) as socket:  # type: ignore[list-item]
        for _ in range(times):
            await viewer.rerun(socket, live=False)
    assert not viewer.errors
    return [round(1000 * seconds, 1) for seconds in viewer.seconds]


def main() -> None:
    """Print the calibration and the speed, one line of JSON a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="Where the runs for the speed are kept (default: nowhere).")
    parser.add_argument("--only", choices=["right", "quick", "page"])
    given = parser.parse_args()
    if given.only in (None, "right"):
        calibration(given.pairs)
    with tempfile.TemporaryDirectory() as folder:
        if given.only in (None, "quick"):
            print(json.dumps(speed(given.store or Path(folder) / "data", given.runs, given.steps)), flush=True)
        if given.only in (None, "page"):
            print(json.dumps(page(Path(folder) / "page", given.runs, given.steps)))


if __name__ == "__main__":
    main()

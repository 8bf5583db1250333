"""The injection lab on a store: the launch that faults are put into, and faults of the text, which the reader must find."""

import numpy as np
import pyarrow as pa

from analysis.diagnose import diagnose
from analysis.inject import SINCE, Outcome, base, try_all
from analysis.segment import NOT_METRICS, Segment, split_segments
from analysis.simulate_hardware import simulate
from messages import N_, Text
from server.golden import launch_of
from server.live import as_dicts
from storage.reader import LogReader
from storage.store import Store
from storage.types import Event, ParseReport

SIMULATED_ROWS = 3000
TEXT_ROWS = 4000  # of a launch that are printed as text
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
)
TEXT_FAULTS = {
    "cut_line": (N_("Damaged line"), N_("one line of the log is cut in half")),
    "no_memory": (N_("Out of memory"), N_("the log ends with an out-of-memory error")),
}


def launch(store: Store, run: str | None) -> Segment | Text:
    """Return what faults are put into: the longest launch of a run (None: a simulated run), or why that can't be."""
    if run is None:
        return base(simulate(rows=SIMULATED_ROWS, seed=3).segment)
    found = launch_of(store, run)
    return Text(N_("It has no training step.")) if found is None else base(found)


def outcomes(segment: Segment, *, since: float = SINCE, profile: str = "robust") -> list[Outcome]:
    """Put every fault into a launch, one at a time, those of its text too."""
    return [*try_all(segment, since=since, profile=profile), *(in_text(segment, name, since=since) for name in TEXT_FAULTS)]


def in_text(segment: Segment, name: str, *, since: float = SINCE) -> Outcome:
    """Print a launch as a log, damage that, read it, and say what was found. Raises KeyError for a fault that is not known."""
    lines = printed(segment)
    row = min(max(int(since * len(lines)), 1), len(lines) - 2)
    step = segment.step(len(segment) - len(lines) + row)
    if name == "cut_line":
        told = _told_of_damage(lines, row)
        if told is not None:
            return Outcome(name, step, None, delay=0, told=told)
        return Outcome(name, step, None, why=(Text(N_("The reader took the line for a whole one.")),))
    if name != "no_memory":
        raise KeyError(name)
    rows, events, _report = read([*lines[:row], OUT_OF_MEMORY])
    found = [f for f in diagnose(split_segments(rows, events=as_dicts(events))).findings if f.kind == "out_of_memory"]
    if found:
        return Outcome(name, step, None, found[0], 0)
    return Outcome(name, step, None, why=(Text(N_("No rule read the error in the text.")),))


def _told_of_damage(lines: list[str], row: int) -> Text | None:
    """Cut a line in half and return what the reader reports that it does not report of the whole log, None for nothing."""
    whole = lines[row]
    damaged = [*lines[:row], whole[: int(0.6 * len(whole))].rstrip("0123456789.e-"), *lines[row + 1 :]]
    before, after = read(lines)[2], read(damaged)[2]
    gaps = {"line": row + 1}
    if row + 1 in {each.line for each in after.unparsed}:
        return Text(N_("Line {line:,} is reported as damaged"), gaps)
    if after.ignored > before.ignored:
        return Text(N_("Line {line:,} is no row any more: it is counted among the lines with nothing to measure"), gaps)
    return next((note for note in after.notes if note not in before.notes), None)


def printed(segment: Segment) -> list[str]:
    """Return the last rows of a launch as lines of a log; a value that is not there is not printed."""
    rows = segment.rows.iloc[-TEXT_ROWS:]
    columns = [name for name in rows.columns if name not in NOT_METRICS and rows[name].dtype.kind == "f"]
    steps = segment.steps()[-len(rows) :].astype(np.int64)
    values = rows[columns].to_numpy()
    return [
        f"step {step} " + " ".join(f"{name}={value:.8g}" for name, value in zip(columns, row, strict=True) if value == value)
        for step, row in zip(steps, values, strict=True)
    ]


def read(lines: list[str]) -> tuple[pa.Table, list[Event], ParseReport]:
    """Read lines as the server would."""
    reader = LogReader("injected.log")
    batches = [*reader.feed("".join(line + "\n" for line in lines).encode()), *reader.finish()]
    events = [event for batch in batches for event in batch.events]
    return pa.concat_tables([batch.rows for batch in batches], promote_options="default"), events, reader.report()

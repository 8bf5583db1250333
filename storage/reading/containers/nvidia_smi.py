"""The boxed table of `nvidia-smi`, printed again and again, also behind host names: memory, load, temperature, power.

Only a table that comes at least three times is telemetry; one that a script prints at its start says nothing about the
training. Columns have the names of nvidia-smi's own query fields.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading.containers.lines import Lines, Problem
from storage.reading.containers.objects import ObjectRows

TIMES = 3
MAX_HELD = 100_000
_DEVICE = re.compile(
    rb"^(?P<prefix>[^|]{0,120})\|\s+(?P<index>\d{1,3})\s+[A-Z][\w .-]{2,60}?\s+(?:On|Off|N/A)\s+\|\s*[0-9A-Fa-f]{4,8}:"
)
_USAGE = re.compile(
    rb"^(?P<prefix>[^|]{0,120})\|\s*(?:\d{1,3}%|N/A)\s+(?P<temperature>\d{1,3})C\s+P\d{1,2}\s+(?P<power>\d{1,5}|N/A)W?\s*/\s*(?:\d{1,5}W|N/A)"
    rb"\s*\|\s*(?P<used>\d{1,7})MiB\s*/\s*(?P<total>\d{1,7})MiB\s*\|\s*(?P<load>\d{1,3}|N/A)%?\s"
)
_FIELDS = {
    "temperature": "temperature.gpu",
    "power": "power.draw [W]",
    "used": "memory.used [MiB]",
    "total": "memory.total [MiB]",
    "load": "utilization.gpu [%]",
}


class NvidiaSmi:
    """Reads the rows of the tables; `index` is that of the device, `host` what stands before the table."""

    own_numbers = True  # `feed` takes the lines' own numbers: a row may be whole only blocks later
    name = "nvidia_smi"

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.units: dict[str, str] = {}
        self._objects = ObjectRows()
        self._device: dict[str, int] = {}  # prefix -> index of the device whose usage line follows
        self._seen: dict[str, int] = {}  # prefix and index -> how often
        self._held: list[tuple[int, dict[str, Any]]] = []

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such tables: 0.9 from the third of one device on."""
        reader = NvidiaSmi()
        reader.feed(sample[: 1 << 17], 1)
        return 0.9 if max(reader._seen.values(), default=0) >= TIMES else 0.0

    def feed(self, text: bytes, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return a row of telemetry for each device of each table, once it is known that they repeat."""
        if b"MiB |" not in text and b".0 O" not in text:  # a usage line, or a device line with its bus address
            return None
        lines = Lines(text)
        for index in range(len(lines)):
            raw = lines.raw(index)
            if b"|" not in raw:
                continue
            if found := _DEVICE.match(raw):
                if len(self._device) < 10_000:
                    self._device[found["prefix"].decode("utf-8", "replace")] = int(found["index"])
            elif b"MiB" in raw and (found := _USAGE.match(raw)):
                self._usage(found, int(numbers[index]) if numbers is not None else first_line + index)
        return self._release()

    def finish(self) -> pa.Table | None:
        """Drop what came fewer than three times."""
        table, self._held = self._release(), []
        return table

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"device": self._device, "seen": self._seen, "held": self._held}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._device, self._seen = dict(state["device"]), dict(state["seen"])
        self._held = [(line, dict(row)) for line, row in state["held"]]

    def _usage(self, found: re.Match[bytes], line: int) -> None:
        prefix = found["prefix"].decode("utf-8", "replace")
        device = self._device.pop(prefix, None)
        if device is None:
            return
        key = f"{prefix}|{device}"
        self._seen[key] = self._seen.get(key, 0) + 1
        row: dict[str, Any] = {"kind": "telemetry", "index": device}
        row |= {"host": prefix.strip(" :")} if prefix.strip(" :") else {}
        row |= {name: int(found[group]) for group, name in _FIELDS.items() if found[group].isdigit()}
        if len(self._held) < MAX_HELD:
            self._held.append((line, row))

    def _release(self) -> pa.Table | None:
        if not self._held or max(self._seen.values()) < TIMES:
            return None
        lines, rows = [line for line, _ in self._held], [row for _, row in self._held]
        self._held = []
        return self._objects.from_rows(rows, lines)

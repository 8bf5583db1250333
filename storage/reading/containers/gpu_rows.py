"""Rows of `nvidia-smi --query-gpu=… --format=csv,noheader`: their units say what the numbers are, as far as they do.

    2025/06/13 00:27:52.195, 0, NVIDIA A100-SXM4-80GB, 98 %, 41 %, 81920 MiB, 40321 MiB, 57, 312.40 W

The first share is the load. Of sizes, one that a device can have as its memory is the total; beside it, one other is what
is used. One whole number alone behind the name is the temperature. What is left has no sure name and is left out.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading.containers.held import Held
from storage.reading.containers.lines import Lines, sample_lines

_STAMP = re.compile(r"\d{4}[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_DEVICE = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|RTX|A100|H100|H200|H800|B200|L40S?|V100)\b[\w .-]*", re.IGNORECASE)
_MEASURED = re.compile(r"([0-9.]+) (%|MiB|W)")
_WHOLE = re.compile(r"[0-9]{1,3}")
# Memory of devices that is no multiple of 1 GiB (what the driver keeps for itself is left out).
_ODD_TOTALS = (81251, 81559, 80994, 49140, 46068, 45634, 40536, 40354, 24564, 24268, 24258, 23028, 22919, 16376, 16160, 15109)
_ODD_TOTALS_MORE = (16280, 16130, 15360, 12288, 11264, 11019, 11178, 11441, 97871, 95830, 143771, 183359, 23040, 32510, 32501)
_TOTALS = frozenset((*_ODD_TOTALS, *_ODD_TOTALS_MORE))
_BARE_HEAT = (10, 110)  # degrees that a device may have


class GpuRows(Held):
    """Reads such rows wherever they stand; `index` is that of the device where the row prints one."""

    name = "gpu_rows"

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such rows: 0.9 from the third on."""
        table = GpuRows().feed(sample_lines(sample[: 1 << 17]).block, 1)
        return 0.9 if table is not None else 0.0

    def feed(self, text: bytes, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return a row of telemetry for each such line, once there were enough of them."""
        lines = Lines(text)
        for index in range(len(lines)):
            raw = lines.raw(index)
            if len(raw) < 400 and b" MiB" in raw and (row := _row(raw.decode("utf-8", "replace"))):
                self.take(int(numbers[index]) if numbers is not None else first_line + index, row)
        return self.release()


def _row(line: str) -> dict[str, Any] | None:
    cells = [cell.strip() for cell in line.split(",")]
    device = next((place for place, cell in enumerate(cells) if _DEVICE.fullmatch(cell)), None)
    measured = [found for cell in cells if (found := _MEASURED.fullmatch(cell))]
    if device is None or len(measured) < 2 or not all(map(_is_cell, cells)):
        return None
    row: dict[str, Any] = {"kind": "telemetry"}
    before = cells[device - 1] if device else ""
    row |= {"timestamp": cells[0]} if _STAMP.fullmatch(cells[0]) else {}
    row |= {"index": int(before)} if _WHOLE.fullmatch(before) else {}
    shares, sizes, watts = ([float(m[1]) for m in measured if m[2] == unit] for unit in ("%", "MiB", "W"))
    row |= {"utilization.gpu [%]": shares[0]} if shares else {}
    row |= {"power.draw [W]": watts[0]} if len(watts) == 1 else {}
    bare = [int(cell) for cell in cells[device + 1 :] if _WHOLE.fullmatch(cell)]
    row |= {"temperature.gpu": bare[0]} if len(bare) == 1 and _BARE_HEAT[0] <= bare[0] <= _BARE_HEAT[1] else {}
    return row | _memory(sizes)


def _memory(sizes: list[float]) -> dict[str, float]:
    """Return what is installed and what is used, where the sizes tell."""
    if len(sizes) == 1:
        return {"memory.used [MiB]": sizes[0]} if not _is_total(sizes[0]) else {}
    total = max(sizes, default=0.0)
    if not _is_total(total):
        return {}
    return {"memory.total [MiB]": total} | ({"memory.used [MiB]": min(sizes)} if len(sizes) == 2 else {})


def _is_total(size: float) -> bool:
    return size >= 4096 and size % 1024 == 0 or int(size) in _TOTALS


def _is_cell(cell: str) -> bool:
    return cell in ("[N/A]", "[Not Supported]", "N/A") or any(
        pattern.fullmatch(cell) for pattern in (_MEASURED, _WHOLE, _STAMP, _DEVICE, _OTHER)
    )


_OTHER = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?: [A-Za-z]{1,4})?|P[0-9]{1,2}|[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+|GPU-[0-9a-f-]+|[0-9.]{3,12}"
)

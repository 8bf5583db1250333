"""Single facts on single lines, from facts.toml: parameter counts, devices, versions, seeds, sizes of the job, the plan."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from storage.reading.config.values import MAX_KEY, Value, scaled, value_of

_TABLE = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
_FACTS = [
    (re.compile(pattern, re.IGNORECASE if entry.get("ignore_case") else 0), entry)
    for entry in _TABLE["fact"]
    for pattern in entry["patterns"]
]
TRIGGER = "|".join(_TABLE["trigger"])  # RE2
_SMI_ROW = re.compile(r"^\|\s+(\d{1,3})\s+([A-Z][\w -]{2,40}?)\s+(?:On|Off|N/A)\s+\|")


def facts(text: str) -> Iterator[tuple[str, Value]]:
    """Yield (name as printed, value) of what a line states; `gpu` for a device, `… version` for versions."""
    for pattern, entry in _FACTS:
        for found in pattern.finditer(text):
            name = entry.get("key") or found["name"].strip()
            value = scaled(found["value"]) if entry.get("size") else found["value"].strip()
            suffix = entry.get("suffix", "")
            yield f"{name}{suffix}"[:MAX_KEY], value if entry.get("size") or suffix else value_of(str(value))


def smi_device(text: str) -> tuple[int, str] | None:
    """Return (index, model) of a row of nvidia-smi's table."""
    found = _SMI_ROW.match(text)
    return (int(found[1]), found[2].strip()) if found else None

"""The four blocks of a run's record: environment, data, training, metrics; the patterns are in four.toml."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BLOCKS = ("environment", "data", "training", "metrics")
_TABLE = tomllib.loads(Path(__file__).with_name("four.toml").read_text(encoding="utf-8"))
_PATTERNS = {name: re.compile("|".join(entry["patterns"]), re.IGNORECASE) for name, entry in _TABLE.items()}


def blocks(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the configuration sorted into the four blocks; what is none of the other three is training."""
    sorted_: dict[str, dict[str, Any]] = {name: {} for name in BLOCKS}
    for key, value in config.items():
        sorted_[_block_of(key)][key] = value
    return sorted_


def _block_of(key: str) -> str:
    last = re.split(r"[/.]", key)[-1]
    found = next((name for name, pattern in _PATTERNS.items() if pattern.search(last)), None)
    return found or ("data" if re.match(r"(?:data|dataset)[/.]", key, re.IGNORECASE) else "training")

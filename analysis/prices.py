"""The table of GPUs and list prices: prices.toml beside this file, and a user's own file before it."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("prices.toml")
LONGEST = 200  # characters of a printed name that are looked at


class PriceTableError(ValueError):
    """A price table can't be used; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU: rated watts, dense peak in TFLOP/s (BF16, else FP16); None where the table does not say."""

    name: str
    match: tuple[str, ...]
    watts: float | None = None
    peak_tflops: float | None = None


@dataclass(frozen=True)
class Price:
    """What a GPU costs an hour, who says so and when; kind: on-demand | spot | reserved | own."""

    gpu: str
    per_hour: float
    currency: str
    kind: str
    source: str
    date: str


@dataclass(frozen=True)
class PriceTable:
    """GPUs and prices, the first match of each counts."""

    gpus: tuple[Gpu, ...]
    prices: tuple[Price, ...]

    def gpu(self, printed: str | None) -> Gpu | None:
        """Return the GPU that a name stands for (`NVIDIA A100-SXM4-80GB`, `h100`), None for an unknown one."""
        text = (printed or "")[:LONGEST].replace("-", " ").replace("_", " ")
        named = (gpu for gpu in self.gpus if gpu.name.lower() == text.strip().lower())
        found = (gpu for gpu in self.gpus if any(re.search(pattern, text, re.IGNORECASE) for pattern in gpu.match))
        return next(named, None) or next(found, None)

    def price(self, gpu: Gpu | None) -> Price | None:
        """Return the first price of a GPU, None without one."""
        return next((price for price in self.prices if gpu is not None and price.gpu == gpu.name), None)


def price_table(own: Path | None = None) -> PriceTable:
    """Return the table, the entries of `own` first if that file is there. Raises PriceTableError if it can't be used."""
    gpus, prices = _read(TABLE)
    if own is not None and own.exists():
        more_gpus, more_prices = _parse(own)
        return PriceTable(more_gpus + gpus, more_prices + prices)
    return PriceTable(gpus, prices)


@cache
def _read(path: Path) -> tuple[tuple[Gpu, ...], tuple[Price, ...]]:
    return _parse(path)


def _parse(path: Path) -> tuple[tuple[Gpu, ...], tuple[Price, ...]]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        gpus = tuple(_gpu(entry) for entry in data.get("gpu", ()))
        prices = tuple(_price(entry) for entry in data.get("price", ()))
    except (
        OSError,
        UnicodeDecodeError,
        tomllib.TOMLDecodeError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        re.error,
    ) as error:
        raise PriceTableError(f"The price table {path.name} can't be used: {error}") from error
    return gpus, prices


def _gpu(entry: Mapping[str, Any]) -> Gpu:
    patterns = tuple(entry.get("match", ())) or (re.escape(entry["name"]),)
    for pattern in patterns:
        re.compile(pattern)
    return Gpu(str(entry["name"]), patterns, _amount(entry, "watts"), _amount(entry, "peak_tflops"))


def _price(entry: Mapping[str, Any]) -> Price:
    per_hour = float(entry["per_hour"])
    if not 0 <= per_hour < 1e6:
        raise ValueError(f"a price of {per_hour} an hour")
    words = (
        str(entry.get(key, default)) for key, default in (("currency", "USD"), ("kind", "own"), ("source", ""), ("date", ""))
    )
    return Price(str(entry["gpu"]), per_hour, *words)


def _amount(entry: Mapping[str, Any], key: str) -> float | None:
    return float(entry[key]) if key in entry else None

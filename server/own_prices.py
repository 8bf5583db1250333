"""The price table of this installation: `prices.toml` in the data directory, whose entries go before ours."""

from datetime import UTC, datetime
from pathlib import Path

from analysis.prices import Price, price_table
from server.costs import OWN_PRICES

_ENTRY = '[[price]]\ngpu = "{gpu}"\nper_hour = {per_hour:g}\ncurrency = "{currency}"\nkind = "own"\ndate = "{date}"\n\n'


def read(data_dir: Path) -> str:
    """Return the own table as text, empty where there is none."""
    path = data_dir / OWN_PRICES
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def save(data_dir: Path, text: str) -> None:
    """Put a table in the place of the own one. Raises PriceTableError, and keeps the old one, if it can't be used."""
    path, new = data_dir / OWN_PRICES, data_dir / f"new-{OWN_PRICES}"
    new.write_text(text, encoding="utf-8")
    try:
        price_table(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def add(data_dir: Path, gpu: str, per_hour: float, currency: str) -> None:
    """Put the price of a GPU for an hour first in the own table. Raises PriceTableError."""
    name = "".join(c for c in gpu if c.isprintable() and c not in '"\\')[:60].strip()
    letters = "".join(c for c in currency.upper() if c.isascii() and c.isalpha())[:3] or "USD"
    entry = _ENTRY.format(gpu=name, per_hour=per_hour, currency=letters, date=datetime.now(UTC).date())
    save(data_dir, entry + read(data_dir))


def prices(data_dir: Path) -> tuple[Price, ...]:
    """Return the own prices. Raises PriceTableError."""
    path = data_dir / OWN_PRICES
    ours = len(price_table().prices)
    return price_table(path).prices[:-ours] if path.exists() else ()

"""Where the server of a data folder listens and the token of its command line: data_dir/server.json, for its user only."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

FILE = "server.json"


@dataclass(frozen=True)
class Address:
    """The server's URL (base path included), the token that lets its command line in, its process."""

    url: str
    token: str
    pid: int


def publish(data_dir: Path, address: Address) -> None:
    """Write the address, readable by this user alone, at once or not at all."""
    path = data_dir / FILE
    made = path.with_suffix(f".{address.pid}.tmp")
    made.unlink(missing_ok=True)
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(address), file)
    made.replace(path)


def withdraw(data_dir: Path, address: Address) -> None:
    """Remove the address if it is still this one."""
    if find(data_dir) == address:
        (data_dir / FILE).unlink(missing_ok=True)


def find(data_dir: Path) -> Address | None:
    """Return the address of the server that has this data folder, None without one."""
    try:
        return Address(**json.loads((data_dir / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


@cache
def local_token() -> str:
    """Return the token that lets this machine's command line use this server: another one each time it starts."""
    return secrets.token_urlsafe(32)

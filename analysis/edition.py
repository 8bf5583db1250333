"""Which code judges: a digest of all that stands in this folder, so that a verdict of other rules is known to be one."""

import hashlib
from functools import cache
from pathlib import Path

KINDS = frozenset({".py", ".toml"})


@cache
def edition() -> str:
    """Return the digest of the rules and of all that they stand on, as they were when it was first asked for (20 ms)."""
    digest, folder = hashlib.sha256(), Path(__file__).parent
    for path in sorted(path for path in folder.rglob("*") if path.suffix in KINDS):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]

"""Sizes in out-of-memory messages, in bytes, in the wordings of several PyTorch versions."""

import re
from typing import Any

_SIZE = r"(\d{1,12}(?:\.\d{1,6})?) ?(bytes|[KMGT]i?B)"
_FACTOR = {
    "bytes": 1,
    "KB": 2**10,
    "KiB": 2**10,
    "MB": 2**20,
    "MiB": 2**20,
    "GB": 2**30,
    "GiB": 2**30,
    "TB": 2**40,
    "TiB": 2**40,
}
_SIZES = {
    "tried_bytes": rf"[Tt]ried to allocate {_SIZE}|allocating {_SIZE}",
    "capacity_bytes": rf"{_SIZE} total capacity|total capacity of {_SIZE}",
    "allocated_bytes": rf"{_SIZE} already allocated|{_SIZE} is allocated by PyTorch|{_SIZE} allocated in total",
    "free_bytes": rf"{_SIZE} free|{_SIZE} is free",
    "reserved_bytes": rf"{_SIZE} reserved in total|{_SIZE} is reserved by PyTorch|{_SIZE} cached",
    "used_bytes": rf"process has {_SIZE} memory in use",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _SIZES.items()}
_HOST = re.compile(
    r"Cannot allocate memory|can't allocate memory|DefaultCPUAllocator|oom[-_]kill|Out of memory: Kill|Out Of Memory"
)


def memory_of(text: str) -> dict[str, Any]:
    """Return the sizes that the message gives (bytes), the `gpu`, and `host` where the machine's own memory ran out."""
    data: dict[str, Any] = {}
    for name, pattern in _PATTERNS.items():
        found = pattern.search(text)
        if found:
            number, unit = [group for group in found.groups() if group][:2]
            data[name] = round(float(number) * _FACTOR[unit])
    gpu = re.search(r"\bGPU (\d{1,4})\b", text)
    data |= {"gpu": int(gpu[1])} if gpu else {}
    return data | ({"host": True} if _HOST.search(text) and not re.search(r"CUDA|HIP|GPU", text) else {})

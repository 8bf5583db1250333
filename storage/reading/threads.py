"""Work on several cores: numpy and Arrow let other threads run while they count.

The order of results is that of the work, so that what is read does not depend on how many threads there are.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

COUNT = os.cpu_count() or 1
_Work = TypeVar("_Work")
_Result = TypeVar("_Result")


def each(work: Callable[[_Work], _Result], pieces: Iterable[_Work]) -> list[_Result]:
    """Return what the work gives for each piece, in their order; the last piece is done by this thread."""
    *others, last = pieces
    waiting = [_pool().submit(work, piece) for piece in others]
    mine = work(last)
    return [*(future.result() for future in waiting), mine]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(COUNT, thread_name_prefix="reading")

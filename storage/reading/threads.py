"""Work on several cores: numpy and Arrow let other threads run while they count.

The order of results is that of the work, so that what is read does not depend on how many threads there are.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from itertools import islice
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


def ahead(results: Iterable[_Result]) -> Iterator[_Result]:
    """Yield the results; while one of them is used, another thread makes the next."""
    steps = iter(results)
    ready = list(islice(steps, 1))
    while ready:
        following = _ahead().submit(copy_context().run, lambda: list(islice(steps, 1)))
        try:
            yield ready[0]
        finally:
            wait([following])
        ready = following.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(COUNT, thread_name_prefix="reading")


@cache
def _ahead() -> ThreadPoolExecutor:
    """Return the threads that may wait for those of `_pool`."""
    return ThreadPoolExecutor(COUNT, thread_name_prefix="reading-ahead")

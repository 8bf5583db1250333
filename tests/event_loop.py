"""Coroutines in tests: run where no browser of other tests keeps a loop of its own, which is the main thread's."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finished(scene: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns, run to its end in a thread and loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, scene).result()

"""What goes first: rows that are being read and pages that are being drawn, before diagnoses that nobody waits for.

All threads of the process share one interpreter: two that compute at once both take twice as long.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

MOST_SECONDS = 0.25  # that others are kept waiting: a long log that is read, or many viewers, must not end the monitoring


class Precedence:
    """Counts who goes first. Used by many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._first = 0

    @contextmanager
    def first(self) -> Iterator[None]:
        """Go first in this block."""
        with self._changed:
            self._first += 1
        try:
            yield
        finally:
            with self._changed:
                self._first -= 1
                self._changed.notify_all()

    def give_way(self) -> None:
        """Wait until nobody goes first, `MOST_SECONDS` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._first, MOST_SECONDS)

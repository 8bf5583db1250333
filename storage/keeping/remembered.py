"""Small answers of the store that are asked for again and again: good until something that they are about is committed.

A page asks for its run, its version and what is said of it at every rerun of every viewer. DuckDB takes a millisecond or
two for each, however small; twenty viewers have them from here.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Answer = TypeVar("Answer")
Question = tuple[Hashable, ...]  # its first word says what it is about
MAX_ANSWERS = 4096


class Remembered:
    """Answers by what was asked, of the present edition of the store. Used by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._edition = 0
        self._commits = 0  # that are under way
        self._answers: OrderedDict[Question, Any] = OrderedDict()

    @contextmanager
    def commit(self, about: Container[str] | None = None) -> Iterator[None]:
        """Commit in this block. Meanwhile nobody is answered from memory, and at its end every answer is forgotten.

        Forgetting at the end alone would not do: who sees what is new in a table would hear from memory of the old.
        about: the commit changes nothing but what such questions (by their first word) are about: only these are forgotten.
        """
        with self._lock:
            self._commits += 1
        try:
            yield
        finally:
            with self._lock:
                self._commits -= 1
                self._edition += 1
                for asked in [asked for asked in self._answers if about is None or asked[0] in about]:
                    del self._answers[asked]

    def get(self, asked: Question, make: Callable[[], Answer]) -> Answer:
        """Return the answer to what is asked, made if it is not there. It is shared: nobody may change it."""
        with self._lock:
            if asked in self._answers and not self._commits:
                self._answers.move_to_end(asked)
                found: Answer = self._answers[asked]
                return found
            edition = None if self._commits else self._edition
        made = make()
        with self._lock:
            # Made of what was there before a commit that has come meanwhile? Then it is for this one only.
            if edition == self._edition and not self._commits:
                self._answers[asked] = made
                while len(self._answers) > MAX_ANSWERS:
                    self._answers.popitem(last=False)
        return made

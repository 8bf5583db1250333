"""A thread that comes behind another one and does jobs in the order given."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Behind:
    """Does one job after the other; at most `most` are waiting or being done. An error in a job is raised by `do` or `wait`."""

    def __init__(self, name: str, most: int = 1) -> None:
        self._thread = ThreadPoolExecutor(1, name)  # begins with the first job
        self._most = most
        self._jobs: deque[Future[None]] = deque()

    def __enter__(self) -> "Behind":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, job: Callable[[], None]) -> None:
        """Give it a job, once there is room."""
        self._wait(self._most - 1)
        self._jobs.append(self._thread.submit(job))

    def wait(self) -> None:
        """Wait until there is nothing to do."""
        self._wait(0)

    def close(self) -> None:
        """Wait for what was begun, whatever becomes of it, and end the thread."""
        self._thread.shutdown()
        self._jobs.clear()

    def _wait(self, most: int) -> None:
        while len(self._jobs) > most:
            self._jobs.popleft().result()

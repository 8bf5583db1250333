"""What the command line works on: the store in the data folder or, while a server has that open, the server itself."""

import http.client
import json
import os
import secrets
import select
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from messages import N_, Text, verbatim
from server import answers
from server.address import Address, find
from server.answers import UnknownMetric
from server.reading import NOTHING_FOUND, Read
from server.service import Service
from server.settings import Settings
from storage.intake.streams import Sending
from storage.intake.watch import Watcher
from storage.store import StoreError, StoreLocked, UnknownRun
from storage.types import UnreadableLog

FLUSH_SECONDS, PIECE_BYTES = 0.5, 1 << 20
LOOK_SECONDS = 1.0  # between two looks at a log that is followed
PATIENCE_SECONDS = 3600.0  # for an answer: a large file may have to be read first

Answer = dict[str, Any]


class Desk(Protocol):
    """The verbs of the command line that need the store."""

    def runs(self) -> list[Answer]:
        """Return every run."""

    def series(self, run: str, metric: str) -> dict[str, list[Any]]:
        """Return every point of a metric. Raises UnknownRun, UnknownMetric."""

    def cost(self, run: str, wishes: Answer) -> Answer:
        """Return time and cost of a run, as `answers.cost`. Raises UnknownRun, ValueError."""

    def compare(self, runs: Sequence[str], base: str | None, asked: Answer) -> Answer:
        """Return the comparison of runs, as `answers.compare`. Raises UnknownRun, ValueError."""

    def read(self, path: Path) -> list[Answer]:
        """Read a file or folder; return what became of each log."""

    def send(self, pieces: Iterable[bytes], name: str) -> Answer:
        """Store what comes as it comes, as a run of that name; return what became of it. Raises UnreadableLog."""

    def follow(self, path: Path) -> Iterator[Answer | None]:
        """Follow a log; yield again and again how its run is (as in `runs`), None while it has none."""

    def close(self) -> None:
        """Let go of the store."""


def open_desk(settings: Settings) -> Desk:
    """Open the store, or the server that has it. Raises StoreLocked when neither can be had."""
    try:
        return Here(Service.open(settings))
    except StoreLocked:
        server = find(settings.data_dir)
        if server is None or not There(server).answers():
            raise
        return There(server)


class Here:
    """The store itself."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def runs(self) -> list[Answer]:
        """Return every run."""
        return answers.runs(self._service)

    def series(self, run: str, metric: str) -> dict[str, list[Any]]:
        """Return every point of a metric."""
        return answers.series(self._service, run, metric)

    def cost(self, run: str, wishes: Answer) -> Answer:
        """Return time and cost of a run."""
        return answers.cost(self._service, run, wishes)

    def compare(self, runs: Sequence[str], base: str | None, asked: Answer) -> Answer:
        """Return the comparison of runs."""
        return answers.compare(self._service, runs, base, asked)

    def read(self, path: Path) -> list[Answer]:
        """Read a file or folder."""
        return [answers.read(self._service, one) for one in self._service.read_path(path)]

    def send(self, pieces: Iterable[bytes], name: str) -> Answer:
        """Store what comes as it comes."""
        streams = self._service.streams
        stream = streams.get(secrets.token_hex(8))
        stream.name = name
        sending = Sending(self._service.store, stream, 0)
        for piece in pieces:
            sending.add(piece)
        run, known = streams.end(sending)
        if run is None:
            raise UnreadableLog("no_metrics", Text(NOTHING_FOUND))
        return answers.read(self._service, Read(name, run, known))

    def follow(self, path: Path) -> Iterator[Answer | None]:
        """Follow a log until the caller stops."""
        watcher = Watcher(self._service.store, stored=False)
        watcher.follow(str(path))
        while True:
            if watcher.poll():
                continue
            run = watcher.run_of(str(path))
            yield next((found for found in self.runs() if found["run"] == run), None)
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Close the store."""
        self._service.close()


class There:
    """A server, over HTTP."""

    def __init__(self, server: Address) -> None:
        self._url = urlsplit(server.url)
        self._headers = {"Authorization": f"Bearer {server.token}"}

    def answers(self) -> bool:
        """Say whether the server is really there."""
        try:
            self._ask("GET", "/healthz", seconds=10.0)
        except (OSError, StoreError):
            return False
        return True

    def runs(self) -> list[Answer]:
        """Return every run."""
        found: list[Answer] = self._ask("GET", "/api/v1/runs")
        return found

    def series(self, run: str, metric: str) -> dict[str, list[Any]]:
        """Return every point of a metric."""
        points: dict[str, list[Any]] = self._ask("GET", f"/api/v1/runs/{quote(run, safe='')}/series/{quote(metric)}")
        return points

    def cost(self, run: str, wishes: Answer) -> Answer:
        """Return time and cost of a run."""
        found: Answer = self._ask("POST", "/api/v1/cost", {"run": run, "wishes": wishes})
        return found

    def compare(self, runs: Sequence[str], base: str | None, asked: Answer) -> Answer:
        """Return the comparison of runs."""
        found: Answer = self._ask("POST", "/api/v1/compare", {"runs": list(runs), "base": base, "asked": asked})
        return found

    def read(self, path: Path) -> list[Answer]:
        """Let the server read a file or folder."""
        found: list[Answer] = self._ask("POST", "/api/v1/read", {"path": str(path.absolute())})
        return found

    def send(self, pieces: Iterable[bytes], name: str) -> Answer:
        """Send what comes as it comes."""
        key = secrets.token_hex(8)
        done = self._ask("POST", f"/api/v1/ingest/{key}?offset=0&end=1&name={quote(name, safe='')}", pieces)
        run: Answer = self._ask("GET", f"/api/v1/runs/{done['run']}")
        return {"file": name} | {key: run[key] for key in ("run", "rows", "verdict")} | {"known": done["known"]}

    def follow(self, path: Path) -> Iterator[Answer | None]:
        """Let the server follow a log until the caller stops."""
        command = {"path": str(path.absolute())}
        try:
            while True:
                run = self._ask("POST", "/api/v1/follow", command)["run"]
                yield next((found for found in self.runs() if found["run"] == run), None)
                time.sleep(LOOK_SECONDS)
        finally:
            self._ask("DELETE", "/api/v1/follow", command)

    def close(self) -> None:
        """Nothing to let go of: each question has a connection of its own."""

    def _ask(self, method: str, path: str, body: Any = None, *, seconds: float = PATIENCE_SECONDS) -> Any:
        """Return the answer to a request. Raises what the store itself would raise, StoreError for all else."""
        connection = self._connection(seconds)
        try:
            chunked = body is not None and not isinstance(body, dict)
            content = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, self._url.path + path, content, self._headers, encode_chunked=chunked)
            response = connection.getresponse()
            found = json.loads(response.read())
        except (http.client.HTTPException, ConnectionError) as error:
            raise StoreError(Text(N_("The server went away before it had answered: start it and ask again."), {})) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise _as_error(found.get("error", ""), found.get("message", f"HTTP {response.status}"))
        return found

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "127.0.0.1", self._url.port
        if self._url.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        # Its certificate is made for the name by which others reach it; what it knows besides is the token in our own file.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)


def _as_error(code: str, sentence: str) -> Exception:
    known = {"unknown_run": UnknownRun, "unknown_metric": UnknownMetric, "no_file": FileNotFoundError}
    known |= {"not_readable": PermissionError, "wish": ValueError}
    if code in known:
        return known[code](sentence)
    said = verbatim(sentence)
    unreadable = code in ("no_metrics", "empty", "binary", "too_large", "too_deep", "truncated_archive")
    return UnreadableLog(code, said) if unreadable else StoreError(said)


def arriving(fd: int) -> Iterator[bytes]:
    """Yield what comes on a file descriptor: at least every FLUSH_SECONDS, at most PIECE_BYTES, until its end or Ctrl-C."""
    waiting, since = b"", 0.0
    try:
        while True:
            left = max(0.0, since + FLUSH_SECONDS - time.monotonic()) if waiting else None
            ready = select.select([fd], [], [], left)[0]
            come = os.read(fd, PIECE_BYTES) if ready else b""
            since = since if waiting else time.monotonic()
            waiting += come
            if ready and not come:
                break
            if len(waiting) >= PIECE_BYTES or time.monotonic() - since >= FLUSH_SECONDS:
                yield waiting
                waiting = b""
    except KeyboardInterrupt:
        pass
    if waiting:
        yield waiting

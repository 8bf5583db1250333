"""Logs that are sent over HTTP: as they grow (`ingest`), or whole (`upload`). Nothing is ever held whole in memory."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectSendStream
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from messages import N_, Text
from server import service
from server.answers import read as read_answer
from server.guard import BadRequest, answer, is_own
from server.reading import NOTHING_FOUND, Read
from server.service import too_large
from storage.intake.streams import Sending, Stream
from storage.reading.unpack import Unpacker
from storage.store import UnknownRun
from storage.types import UnreadableLog

FLUSH_SECONDS, FLUSH_BYTES = 0.5, 4 << 20  # what has come is stored after so long, or when it is so much
QUEUE = 8  # pieces of the network that wait

Part = bytes | Exception  # a piece of what is sent, or what went wrong behind it

_stopping = False


def stop() -> None:
    """End all requests that are still sending: the server stops. They will be told where to go on."""
    global _stopping
    _stopping = True


async def offset(request: Request) -> Response:
    """Answer how many bytes of a log are here: where its sender goes on. As plain text if that is asked for (?plain)."""
    stream = await anyio.to_thread.run_sync(_stream, request)
    if "plain" in request.query_params:
        return Response(f"{stream.source.offset}\n", media_type="text/plain")
    return answer(_answer(stream))


async def ingest(request: Request) -> Response:
    """Store what is sent as it comes; answer, when it ends, how much of the log is here then.

    `?offset=N` (or the header Upload-Offset): its first byte is byte N of the log. `?end=1`: nothing more will come.
    `?name=`: what a new run is called (its key by default); `?rank=`, `?host=`: of which lane of the run it is.
    """
    at = _number(request, "offset", request.headers.get("upload-offset"))
    stream = await anyio.to_thread.run_sync(_stream, request)
    sending = await anyio.to_thread.run_sync(Sending, service.get().store, stream, at)
    try:
        async for data in _together(_content(request)):
            rows = await anyio.to_thread.run_sync(sending.add, data)
            service.get().got_rows([stream.source.job or stream.source.run] if rows else [])
    except UnknownRun as error:
        service.get().streams.forget(stream)
        message = Text(N_("The run of this log was deleted. Restore it, or send the log under another name."))
        raise BadRequest(message, status=410, code="deleted") from error
    if "end" in request.query_params:
        run, known = await anyio.to_thread.run_sync(service.get().streams.end, sending)
        if run is None:
            raise UnreadableLog("no_metrics", Text(NOTHING_FOUND))
        service.get().got_rows([] if known else [stream.source.job or run])
        return answer(_answer(stream, run) | {"known": known})
    return answer(_answer(stream))


async def upload(request: Request) -> Response:
    """Store a whole log that is sent, as an upload in the browser does; answer what became of it."""
    name = request.path_params["name"]
    send, receive = anyio.create_memory_object_stream[Part](QUEUE)

    def pieces() -> Iterator[bytes]:
        while True:
            try:
                part = anyio.from_thread.run(receive.receive)
            except anyio.EndOfStream:
                return
            yield _checked(part)

    def store() -> dict[str, Any]:
        done = service.get().ingest_upload(name, pieces())
        return read_answer(service.get(), Read(name, done.run_id, done.known))

    stored, failure = {}, None
    async with anyio.create_task_group() as group, receive:
        group.start_soon(_pump, _content(request), send)
        try:
            stored = await anyio.to_thread.run_sync(store)
        except Exception as error:  # out of the group as it is, not as a group of errors
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answer(stored)


def _stream(request: Request) -> Stream:
    params = request.query_params
    rank = _number(request, "rank")
    stream = service.get().streams.get(request.path_params["run"], rank=rank, host=params.get("host") or None)
    if not stream.source.run:
        stream.name = params.get("name") or stream.name
    return stream


def _answer(stream: Stream, run: str | None = None) -> dict[str, Any]:
    run = run or stream.source.run
    rows = service.get().store.run(run).rows if run else 0
    return {"run": run or None, "name": stream.name, "offset": stream.source.offset, "rows": rows}


def _number(request: Request, name: str, header: str | None = None) -> int | None:
    given = request.query_params.get(name, header)
    if given is None or given == "":
        return None
    if not (given.isascii() and given.isdigit()) or len(given) > 18:
        raise BadRequest(Text(N_("{name} must be a whole number, not {given}."), {"name": name, "given": given[:50]}))
    return int(given)


async def _content(request: Request) -> AsyncIterator[bytes]:
    """Yield the body, unpacked, up to the size that one request may have. Raises BadRequest, UnreadableLog."""
    limit_mib = service.get().settings.max_upload_mib
    limit = None if is_own(request) else limit_mib << 20
    unpack = _unpacker(request.headers.get("content-encoding", "identity").strip().lower())
    size = 0
    async for piece in request.stream():
        for data in unpack(piece):
            size += len(data)
            if limit is not None and size > limit:
                raise too_large(limit_mib)
            yield data


def _unpacker(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    if encoding in ("", "identity"):
        return lambda piece: iter([piece])
    if encoding not in ("gzip", "zstd"):
        message = N_("The content encoding {given} is not known here: send gzip, zstd, or plain text.")
        raise BadRequest(Text(message, {"given": encoding[:50]}), status=415, code="encoding")
    return Unpacker(encoding).feed


async def _together(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what has come, at least every FLUSH_SECONDS; also what came before the sender went away."""
    send, receive = anyio.create_memory_object_stream[Part](QUEUE)
    failure: Exception | None = None
    async with anyio.create_task_group() as group, receive:
        group.start_soon(_pump, pieces, send)
        more = True
        while more:
            data, more, failure = await _gather(receive)
            if data:
                yield data
            if _stopping:
                message = Text(N_("The server stops. Send the rest when it is back."))
                failure, more = BadRequest(message, status=503, code="stopping"), False
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _gather(receive: ObjectReceiveStream[Part]) -> tuple[bytes, bool, Exception | None]:
    """Return what comes within FLUSH_SECONDS (or FLUSH_BYTES of it), whether more may come, and what went wrong."""
    parts: list[bytes] = []
    until, size = time.monotonic() + FLUSH_SECONDS, 0
    with anyio.move_on_after(FLUSH_SECONDS):
        while size < FLUSH_BYTES and time.monotonic() < until:
            try:
                part = await receive.receive()
            except anyio.EndOfStream:
                return b"".join(parts), False, None
            if isinstance(part, Exception):
                return b"".join(parts), False, None if isinstance(part, ClientDisconnect) else part
            parts.append(part)
            size += len(part)
    return b"".join(parts), True, None


async def _pump(pieces: AsyncIterator[bytes], send: MemoryObjectSendStream[Part]) -> None:
    """Take pieces from the network and pass them on, and what goes wrong as the last."""
    async with send:
        try:
            async for piece in pieces:
                await send.send(piece)
        except Exception as error:
            await send.send(error)


def _checked(part: Part) -> bytes:
    if isinstance(part, Exception):
        raise part
    return part

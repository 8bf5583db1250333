"""The original bytes of a run: which frames there are stands in the warehouse, the bytes in the archive file of the run."""

import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from messages import N_, Text
from storage.keeping.archive import FRAME_BYTES, ArchiveFile, Frame, FrameCutter, compress, decompress, joined, read_piece
from storage.keeping.schema import StoreError, first_row, now

FRAME_COLUMNS = ["run", "first_line", "lines", "byte", "bytes", "position", "size", "data", "made", "crc"]


@dataclass(frozen=True)
class End:
    """Where the kept bytes end: next line (1-based) and byte of the log, length of the archive file, bytes in small frames."""

    line: int = 1
    byte: int = 0
    position: int = 0
    small: int = 0


def end_of(cursor: duckdb.DuckDBPyConnection, run_no: int) -> End:
    """Return where the kept bytes of a run end."""
    sql = (
        "select max(first_line + lines), max(byte + bytes), coalesce(max(position + size), 0), "
        "coalesce(sum(bytes) filter (data is not null), 0)::bigint from frames where run = ?"
    )
    found = first_row(cursor, sql, [run_no])
    return End(*found) if found and found[0] is not None else End()


def frames(
    cursor: duckdb.DuckDBPyConnection,
    run_no: int,
    archive: Path,
    first: int = 0,
    last: int = sys.maxsize,
    *,
    start: int = 0,
    small: bool = False,
) -> Iterator[Frame]:
    """Yield the frames that hold the lines `first`…`last`, in order, and bytes from byte `start` on; with `small` only those
    that are not in the file yet.

    What is no longer kept is left out (`joined` and `display_lines` keep to the numbers of the lines).

    Raises OSError when the archive file is gone or damaged.
    """
    sql = (
        "select first_line, lines, byte, bytes, position, size, data from frames "
        "where run = ? and first_line <= ? and first_line + lines >= ? and byte + bytes > ? "
        f"and {'data is not null' if small else '(data is not null or position is not null)'} order by byte"
    )
    for first_line, lines, byte, size, position, packed, data in cursor.execute(sql, [run_no, last, first, start]).fetchall():
        data = read_piece(archive, position, packed) if data is None else data
        yield Frame(first_line, lines, byte, decompress(data, size))


class Originals:
    """Keeps the bytes of one run's log, going on at `end`; holds `use` while it uses the cursor."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, run_no: int, archive: Path, end: End, use: AbstractContextManager[Any]
    ) -> None:
        self._cursor, self._use = cursor, use
        self._run_no = run_no
        self._small = end.small
        self._cutter = FrameCutter(end.line, end.byte)
        self._file = ArchiveFile(archive, end.position)
        self._encoding = "utf-8"
        self._notes: list[tuple[Any, ...]] = []

    @property
    def end(self) -> End:
        """Where the bytes kept so far end."""
        return End(self._cutter.line, self._cutter.byte, self._file.end, self._small)

    def feed(self, data: bytes, encoding: str) -> None:
        """Keep the next bytes; what fills a frame goes to the file at once."""
        self._encoding = encoding
        for frame in self._cutter.feed(data, encoding):
            self._small_to_file()
            self._to_file(frame)

    def finish(self) -> pa.Table | None:
        """Keep what fills no frame in the warehouse, or in the file once it is enough, and make the file durable.

        Returns new rows of the table `frames`, None without any.
        """
        rest = self._cutter.rest(self._encoding)
        size = sum(len(frame.data) for frame in rest)
        if self._small + size >= FRAME_BYTES:
            self._small_to_file(rest)
        else:
            for frame in rest:
                self._note(frame, compress(frame.data))
            self._small += size
        try:
            self._file.sync()
        except OSError as error:
            raise _unwritten(error) from error
        return frames_rows(self._run_no, self._notes) if self._notes else None

    def close(self, *, keep: bool) -> None:
        """Close the file; unless `keep`, take back what was written to it."""
        self._file.close(keep=keep)

    def _small_to_file(self, behind: Sequence[Frame] = ()) -> None:
        """Move small frames from the warehouse to the file, and those `behind` them."""
        stored: list[Frame] = []
        if self._small:
            with self._use:
                stored = list(frames(self._cursor, self._run_no, self._file.path, small=True))
                self._cursor.execute("delete from frames where run = ? and data is not null", [self._run_no])
        for frame in joined([*stored, *behind]):
            self._to_file(frame)
        self._small = 0

    def _to_file(self, frame: Frame) -> None:
        data = compress(frame.data)
        try:
            position = self._file.append(data)
        except OSError as error:
            raise _unwritten(error) from error
        self._note(frame, data, position)

    def _note(self, frame: Frame, packed: bytes, position: int | None = None) -> None:
        data = packed if position is None else None
        place = (frame.first_line, frame.lines, frame.byte, len(frame.data))
        self._notes.append((*place, position, len(packed), data, now(), zlib.crc32(packed)))


def frames_rows(run_no: int, notes: Sequence[Sequence[Any]]) -> pa.Table:
    """Return what is known of frames (first line, lines, byte, bytes, position, size, data, made, CRC) as rows of `frames`."""
    kinds = {"run": pa.int32(), "data": pa.binary(), "made": pa.timestamp("us")}
    columns = [[run_no] * len(notes), *map(list, zip(*notes, strict=True))]
    arrays = [pa.array(values, kinds.get(name, pa.int64())) for name, values in zip(FRAME_COLUMNS, columns, strict=True)]
    return pa.table(arrays, names=FRAME_COLUMNS)


def _unwritten(error: OSError) -> StoreError:
    return StoreError(Text(N_("Nothing was stored: {error}"), {"error": str(error)}))

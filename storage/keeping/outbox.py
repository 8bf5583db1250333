"""What was alerted, and what became of each message to each channel: kept, so that a crash loses none.

An alert without a delivery was told in the app only. A delivery waits, was sent, or failed for good; what waits is tried
again when it is due. One message may carry several deliveries of a channel.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from storage.keeping.reports import clean_text
from storage.keeping.schema import now
from storage.keeping.warehouse import Warehouse

WAITING, SENT, FAILED = "waiting", "sent", "failed"
MOST_ALERTS = 5000  # the newest are kept
NAMES = "alert, run, channel, state, tries, due, done, message, answer"


@dataclass(frozen=True)
class Alert:
    """Something that was alerted: `data` is plain JSON (see server/alerts/occurrences.py), `made` is when (UTC)."""

    id: str
    run: str
    data: Any
    made: datetime


@dataclass(frozen=True)
class Delivery:
    """An alert on its way to a channel.

    tries: how often it was tried; due: when it is tried next (UTC); done: when it was sent or given up, None until then;
    message: what carried it; answer: why it was not sent the last time, as JSON, None without a try that failed.
    """

    alert: str
    run: str
    channel: str
    state: str
    tries: int
    due: datetime
    done: datetime | None
    message: str
    answer: Any


class Outbox:
    """The alerts and deliveries of a store."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._reading, self._change, self._remembered = warehouse.reading, warehouse.change, warehouse.answer

    def add(self, alerts: Sequence[tuple[Alert, Sequence[str]]]) -> None:
        """Keep alerts, each with the channels it goes to: all of them or, after a crash, none. Raises StoreError."""
        with self._change({"alerts"}) as cursor:
            for alert, channels in alerts:
                data = clean_text(json.dumps(alert.data, ensure_ascii=False))
                made = _bare(alert.made)
                cursor.execute("insert into alerts values (?, ?, ?, ?)", [alert.id, alert.run, data, made])
                for channel in channels:
                    values = [alert.id, alert.run, channel, WAITING, 0, made, None, "", None]
                    cursor.execute("insert into deliveries values (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            _forget_old(cursor)

    def alerts(self, run: str | None = None, most: int = MOST_ALERTS) -> list[Alert]:
        """Return the newest alerts (of one run; None: of all), the newest first."""
        sql = (
            "select id, run, data, made from alerts where $run is null or run = $run order by made desc, rowid desc limit $most"
        )
        return list(self._remembered(("alerts", run, most), lambda cursor: _alerts(cursor, sql, {"run": run, "most": most})))

    def named(self, ids: Sequence[str]) -> list[Alert]:
        """Return the alerts with these ids, the oldest first; those that are gone are left out."""
        sql = "select id, run, data, made from alerts where list_contains($ids, id) order by made, rowid"
        with self._reading() as cursor:
            return _alerts(cursor, sql, {"ids": list(ids)})

    def deliveries(self, alerts: Sequence[str]) -> list[Delivery]:
        """Return the deliveries of some alerts."""
        with self._reading() as cursor:
            return _deliveries(cursor, "list_contains($ids, alert)", {"ids": list(alerts)})

    def waiting(self) -> list[Delivery]:
        """Return what is still to be sent, the oldest first."""
        with self._reading() as cursor:
            return _deliveries(cursor, "state = $state", {"state": WAITING})

    def sent_since(self, channel: str, since: datetime) -> list[datetime]:
        """Return when messages were sent to a channel since then, the oldest first."""
        sql = "select max(done) from deliveries where channel = ? and state = ? and done > ? group by message order by 1"
        with self._reading() as cursor:
            return [done.replace(tzinfo=UTC) for (done,) in cursor.execute(sql, [channel, SENT, _bare(since)]).fetchall()]

    def sent(self, deliveries: Sequence[Delivery], message: str) -> None:
        """Note that a message has carried these deliveries of one channel."""
        self._settle(deliveries, "state = ?, done = ?, message = ?, answer = null", [SENT, now(), message])

    def failed(self, deliveries: Sequence[Delivery], answer: Any, again_seconds: float | None) -> None:
        """Note why these deliveries of one channel were not sent; again_seconds: when they are tried again, None: never."""
        said = clean_text(json.dumps(answer, ensure_ascii=False))
        if again_seconds is None:
            self._settle(deliveries, "state = ?, done = ?, answer = ?", [FAILED, now(), said])
        else:
            self._settle(deliveries, "due = ?, answer = ?", [now() + timedelta(seconds=again_seconds), said])

    def hurry(self, channel: str) -> None:
        """Let what waits for a channel be tried again at once: it has been changed."""
        with self._change({"alerts"}) as cursor:
            cursor.execute("update deliveries set due = ? where channel = ? and state = ?", [now(), channel, WAITING])

    def _settle(self, deliveries: Sequence[Delivery], sets: str, values: list[Any]) -> None:
        ids, channel = [each.alert for each in deliveries], deliveries[0].channel
        with self._change({"alerts"}) as cursor:
            sql = f"update deliveries set tries = tries + 1, {sets} where list_contains(?, alert) and channel = ?"
            cursor.execute(sql, [*values, ids, channel])


def _forget_old(cursor: duckdb.DuckDBPyConnection) -> None:
    newest = f"select id from alerts order by made desc, rowid desc limit {MOST_ALERTS:d}"
    cursor.execute(f"delete from alerts where id not in ({newest})")
    cursor.execute("delete from deliveries where alert not in (select id from alerts)")


def _alerts(cursor: duckdb.DuckDBPyConnection, sql: str, values: dict[str, Any]) -> list[Alert]:
    found = cursor.execute(sql, values).fetchall()
    return [Alert(name, run, json.loads(data), made.replace(tzinfo=UTC)) for name, run, data, made in found]


def _deliveries(cursor: duckdb.DuckDBPyConnection, which: str, values: dict[str, Any]) -> list[Delivery]:
    found = cursor.execute(f"select {NAMES} from deliveries where {which} order by rowid", values).fetchall()
    return [_delivery(*row) for row in found]


def _delivery(
    alert: str, run: str, channel: str, state: str, tries: int, due: datetime, done: datetime | None, message: str, answer: str
) -> Delivery:
    ended = None if done is None else done.replace(tzinfo=UTC)
    said = None if answer is None else json.loads(answer)
    return Delivery(alert, run, channel, state, tries, due.replace(tzinfo=UTC), ended, message, said)


def _bare(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)

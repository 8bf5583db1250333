"""Sends what waits in the outbox: one thread looks what is due, and each channel has a thread of its own while it sends.

So a channel that is down holds up nobody else. What was not sent is tried again after growing pauses, for a day. A message
is noted as sent when the other side has accepted it: if the server dies in between, it is sent once more.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from uuid import uuid4

from messages import N_, Text
from server.alerts.channels import Channel, channels
from server.alerts.message import compose
from server.alerts.sending import Send, send
from storage.keeping.outbox import Delivery
from storage.store import Store

LOG = logging.getLogger("runvitals.alerts")
PAUSES_SECONDS = (10, 30, 60, 120, 300, 600, 1200, 2400, 3600)  # after each try that failed; the last again and again
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
IDLE_SECONDS = 3600.0
STOP_SECONDS = 5.0
FIRST_SECONDS = 2.0  # after the start: the server says where it is first, and links begin with that


@dataclass(frozen=True)
class Due:
    """What one channel is to be sent now, as one message, and after how many seconds it should be looked at again."""

    deliveries: tuple[Delivery, ...]
    wait_seconds: float


def due(waiting: Sequence[Delivery], sent: Sequence[datetime], per_hour: int, now: datetime) -> Due:
    """Return what of a channel's waiting deliveries makes its next message.

    sent: when its messages of the last hour were sent. Alerts of one run go together; the last message that an hour has
    room for takes all that are due.
    """
    ready = [each for each in waiting if each.due <= now]
    if not ready:
        return Due((), min((each.due - now).total_seconds() for each in waiting))
    if len(sent) >= per_hour:
        return Due((), max(0.0, (sent[len(sent) - per_hour] + HOUR - now).total_seconds()))
    if len(sent) == per_hour - 1:
        return Due(tuple(ready), 0.0)
    return Due(tuple(each for each in ready if each.run == ready[0].run), 0.0)


class Outgoing:
    """The thread that empties the outbox. root: gives the address of the pages, which links begin with."""

    def __init__(self, store: Store, root: Callable[[], str], *, send: Send = send) -> None:
        self._store, self._root, self._send = store, root, send
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._busy: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier process left."""
        self._thread.start()

    def wake(self) -> None:
        """Look into the outbox now."""
        self._woken.set()

    def stop(self) -> None:
        """End; what is being sent may end too, for a few seconds."""
        self._stopped.set()
        self._woken.set()
        for thread in [self._thread, *self._busy.values()]:
            if thread.ident is not None:
                thread.join(STOP_SECONDS)

    def _run(self) -> None:
        self._woken.wait(FIRST_SECONDS)
        while not self._stopped.is_set():
            self._woken.clear()
            try:
                wait = self.look()
            except Exception:  # the store may be full or closing; what waits is kept
                LOG.exception("The outbox could not be looked into")
                wait = PAUSES_SECONDS[0]
            self._woken.wait(wait)

    def look(self) -> float:
        """Begin to send what is due by channels that are free; return after how many seconds there may be more."""
        known, now = {channel.id: channel for channel in channels(self._store)}, datetime.now(UTC)
        waits = [IDLE_SECONDS]
        waiting = sorted(self._store.outbox.waiting(), key=lambda each: each.channel)
        for name, its in groupby(waiting, key=lambda each: each.channel):
            if name in self._busy:
                continue
            channel = known.get(name)
            if channel is None:
                self._store.outbox.failed(list(its), Text(N_("The channel was deleted.")).to_dict(), None)
                continue
            next_one = due(list(its), self._store.outbox.sent_since(name, now - HOUR), channel.per_hour, now)
            if next_one.deliveries:
                self._begin(channel, next_one.deliveries)
            else:
                waits.append(next_one.wait_seconds)
        return min(waits)

    def _begin(self, channel: Channel, deliveries: Sequence[Delivery]) -> None:
        thread = threading.Thread(target=self._deliver, args=(channel, deliveries), name=f"alerts-{channel.id}", daemon=True)
        self._busy[channel.id] = thread
        thread.start()

    def _deliver(self, channel: Channel, deliveries: Sequence[Delivery]) -> None:
        try:
            message = compose(self._store.outbox.named([each.alert for each in deliveries]), channel.language, self._root())
            refused = self._send(channel, message)
            if refused is None:
                self._store.outbox.sent(deliveries, uuid4().hex)
            else:
                self._refused(deliveries, refused)
        except Exception as error:  # nothing is lost: it is tried again
            LOG.error("A message to channel %s could not be sent (%s)", channel.id, type(error).__name__)
            self._refused(deliveries, Text(N_("It could not be sent: {error}"), {"error": type(error).__name__}))
        finally:
            del self._busy[channel.id]
            self.wake()

    def _refused(self, deliveries: Sequence[Delivery], why: Text) -> None:
        pause = PAUSES_SECONDS[min(max(each.tries for each in deliveries), len(PAUSES_SECONDS) - 1)]
        made = {alert.id: alert.made for alert in self._store.outbox.named([each.alert for each in deliveries])}
        late = datetime.now(UTC) - DAY
        for old in (True, False):
            mine = [each for each in deliveries if (made.get(each.alert, late) < late) is old]
            if mine:
                self._store.outbox.failed(mine, why.to_dict(), None if old else pause)

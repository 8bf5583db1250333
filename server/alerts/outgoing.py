"""Sends what waits in the outbox: one thread looks what is due, and each channel has a thread of its own while it sends.

So a channel that is down holds up nobody else. What was not sent is tried again after growing pauses, for a day. A message
is noted as sent when the other side has accepted it: if the server dies in between, it is sent once more.
"""

import logging
import threading
import time
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
REST_SECONDS = 600.0
FIRST_SECONDS = 2.0  # after the start: the server says where it is first, and links begin with that


@dataclass(frozen=True)
class Due:
    """What one channel is to be sent now, as one message, and after how many seconds it should be looked at again."""

    deliveries: tuple[Delivery, ...]
    wait_seconds: float


def due(waiting: Sequence[Delivery], sent: Sequence[datetime], per_hour: int, now: datetime) -> Due:
    """Return what of a channel's waiting deliveries makes its next message.

    sent: when its messages of the last hour were sent. Alerts of one run go together; the last message that an hour has
    room for takes all that are due. After a try that failed everything waits: the channel is down, not the message.
    """
    pausing = [each.due for each in waiting if each.tries and each.due > now]
    if pausing:
        return Due((), (min(pausing) - now).total_seconds())
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
        self._resting: dict[str, float] = {}  # channels of which nothing could be noted, until when
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
            if name in self._resting and time.monotonic() < self._resting[name]:
                waits.append(self._resting[name] - time.monotonic())
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
            refused = self._tried(channel, deliveries)
            if refused is None:
                self._store.outbox.sent(deliveries, uuid4().hex)
            else:
                self._refused(channel, deliveries, refused)
        except Exception:  # the store is full or closed: what was sent must not be sent again and again
            LOG.exception("What became of a message to channel %s could not be noted", channel.id)
            self._resting[channel.id] = time.monotonic() + REST_SECONDS
        finally:
            del self._busy[channel.id]
            self.wake()

    def _tried(self, channel: Channel, deliveries: Sequence[Delivery]) -> Text | None:
        """Send; return why it was not accepted."""
        alerts = self._store.outbox.named([each.alert for each in deliveries])
        try:
            return self._send(channel, compose(alerts, channel.language, self._root()))
        except Exception as error:  # its words may hold a secret
            LOG.error("A message to channel %s could not be sent (%s)", channel.id, type(error).__name__)
            return Text(N_("It could not be sent: {error}"), {"error": type(error).__name__})

    def _refused(self, channel: Channel, deliveries: Sequence[Delivery], why: Text) -> None:
        """Let the message wait; give up what has waited for a day, whether or not it was its turn."""
        waiting = [each for each in self._store.outbox.waiting() if each.channel == channel.id]
        late = datetime.now(UTC) - DAY
        old = {alert.id for alert in self._store.outbox.named([each.alert for each in waiting]) if alert.made < late}
        pause = PAUSES_SECONDS[min(max(each.tries for each in deliveries), len(PAUSES_SECONDS) - 1)]
        given_up = [each for each in waiting if each.alert in old]
        again = [each for each in deliveries if each.alert not in old]
        for some, seconds in ((given_up, None), (again, pause)):
            if some:
                self._store.outbox.failed(some, why.to_dict(), seconds)

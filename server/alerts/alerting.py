"""The part of the service that tells people: it hears the monitor, sends what is due, and tries a channel when asked."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analysis.diagnose import Diagnosis
from analysis.findings import Finding
from messages import Text
from server import address
from server.alerts.channels import Channel
from server.alerts.hearing import hear
from server.alerts.message import trial
from server.alerts.outgoing import Outgoing
from server.alerts.sending import send
from server.arrivals import RECENT_SECONDS

if TYPE_CHECKING:
    from server.service import Service


@dataclass(frozen=True)
class Trial:
    """A test message: on its way, or done; refused: why the other side did not accept it, None when it did."""

    done: bool = False
    refused: Text | None = None


class Alerts:
    """`trials` are the latest tests, by id of the channel."""

    def __init__(self, service: "Service") -> None:
        self.trials: dict[str, Trial] = {}
        self._service = service
        self._outgoing = Outgoing(service.store, self.root)

    def start(self) -> None:
        """Begin to send; look once more at the runs of the last hour, of which an earlier process may not have told."""
        self._outgoing.start()
        since = datetime.now(UTC) - timedelta(seconds=RECENT_SECONDS)
        for run in self._service.store.runs():
            if self._service.monitor is not None and run.updated.replace(tzinfo=UTC) > since:
                self._service.monitor.changed(run.id)

    def stop(self) -> None:
        """End; what waits is kept."""
        self._outgoing.stop()

    def hear(self, run: str, before: Diagnosis | None, now: Diagnosis, new: Sequence[Finding]) -> None:
        """Hear of a diagnosis (a hook of the monitor)."""
        if hear(self._service, run, before, now, new):
            self._outgoing.wake()

    def wake(self) -> None:
        """Look into the outbox now: a channel was changed."""
        self._outgoing.wake()

    def root(self) -> str:
        """Return the address of the pages with / at the end: the one that is set, else where this server listens."""
        here = address.find(self._service.settings.data_dir)
        found = self._service.settings.public_url or (here.url if here else "")
        return f"{found.rstrip('/')}/" if found else ""

    def try_out(self, channel: Channel) -> None:
        """Send a test message in the background; `trials` has the answer. A second one waits for the first."""
        if self.trials.get(channel.id, Trial(True)).done:
            self.trials[channel.id] = Trial()
            threading.Thread(target=self._try, args=(channel,), name="alert-test", daemon=True).start()

    def _try(self, channel: Channel) -> None:
        self.trials[channel.id] = Trial(True, send(channel, trial(channel.language, self.root())))

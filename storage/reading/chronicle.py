"""Events get their place: the launch they belong to and the step that was reached, from the rows before them."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from storage.types import Event


class Chronicle:
    """Holds events until the rows before them are complete, then gives each its segment and, if it prints none, its step."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._segment = 0
        self._step: int | None = None

    def release(self, events: list[Event], rows: pa.Table | None, before: int | None) -> tuple[Event, ...]:
        """Take new events and rows; return the events of lines before `before` (None: all), in the order of the log."""
        every = sorted((*self._waiting, *events), key=lambda event: event.line)
        self._waiting = [event for event in every if before is not None and event.line >= before]
        ready = every[: len(every) - len(self._waiting)]
        if rows is None or not rows.num_rows:
            return tuple(self._placed(event, self._segment, self._step) for event in ready)
        placed = []
        ats = np.searchsorted(rows["line"].to_numpy(), [event.line for event in ready], "right") - 1
        for event, at in zip(ready, ats.tolist(), strict=True):
            segment = self._segment if at < 0 else rows["segment"][at].as_py()
            step = self._step if at < 0 else rows["step"][at].as_py()
            placed.append(self._placed(event, segment, step))
        self._segment, self._step = rows["segment"][-1].as_py(), rows["step"][-1].as_py()
        return tuple(placed)

    @staticmethod
    def _placed(event: Event, segment: int, step: int | None) -> Event:
        return replace(event, segment=segment, step=step if event.step is None else event.step)

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able."""
        return {"waiting": [asdict(event) for event in self._waiting], "segment": self._segment, "step": self._step}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._waiting = [Event(**event) for event in state["waiting"]]
        self._segment, self._step = state["segment"], state["step"]

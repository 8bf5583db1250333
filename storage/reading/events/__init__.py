"""What the text of a log says beside its records: failures, checkpoints, interruptions, and which of them ended the run.

scanner = EventScanner()
events = scanner.feed(block, first_line)     # whole lines of UTF-8
scanner.counts                               # kind -> how many were seen, also those no longer kept
why_failed(events, after=last_line)          # the event that best explains the end, None where nothing does
"""

from storage.reading.events.cause import FAILURES, why_failed
from storage.reading.events.scanner import EventScanner, scan

__all__ = ["FAILURES", "EventScanner", "scan", "why_failed"]

"""What a container's collector puts around a line that a program printed: JSON, or the time and the stream."""

import json
import re

_STREAM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,20}(?:Z|[+-][0-9:]{5}) std(?:out|err) [FP] ")  # Kubernetes' CRI
_JSON = re.compile(r'\{.{0,2000}?"(?:message|log|msg|line|textPayload)": ?"(?P<message>(?:[^"\\]|\\.)*)"')


def written(line: str) -> str | None:
    """Return the message as it stands within a line of JSON, escapes and all; None where a line is no such JSON."""
    found = _JSON.match(line)
    return found["message"] if found else None


def printed(line: str) -> str:
    """Return what the program printed; a line that nothing wrapped as it is."""
    if stream := _STREAM.match(line):
        return line[stream.end() :]
    message = written(line)
    if message is None:
        return line
    try:
        return str(json.loads(f'"{message}"')).rstrip("\n")
    except ValueError:
        return line

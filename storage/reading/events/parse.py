"""What more a line says about its event: timeouts, loss scales, checkpoints, signals, sizes."""

import re
from typing import Any

from storage.reading.events.memory import memory_of

_SIGNALS = {"9": "SIGKILL", "15": "SIGTERM", "2": "SIGINT", "11": "SIGSEGV", "6": "SIGABRT", "7": "SIGBUS", "1": "SIGHUP"}
_WORDS = {"Keyboard": "SIGINT", "^C": "SIGINT", "Segmentation": "SIGSEGV", "Bus error": "SIGBUS", "Killed": "SIGKILL"}
_REASONS = {
    "time_limit": r"TIME LIMIT|RUNLIMIT|walltime|TIMEOUT",
    "preempted": r"(?i)PREEMPT",
    "node_failure": r"NODE FAILURE|NODE_FAIL",
    "memory_limit": r"MEMLIMIT",
    "cancelled": r"",
}


def named(_: str, found: re.Match[str]) -> dict[str, Any]:
    """Return the named groups of the match, whole numbers as numbers."""
    return {key: int(text) if re.fullmatch(r"-?\d{1,18}", text) else text for key, text in found.groupdict().items() if text}


def memory(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return the sizes of an out-of-memory message, in bytes."""
    return memory_of(text)


def timeout(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return how long was waited (milliseconds), for which operation, on which rank."""
    ran = re.search(r"ran for (\d{1,12}) milliseconds", text)
    ran = ran or re.search(r"(?:Timeout\(ms\)|timeout after|timeoutMs)[= :]*(\d{1,12})", text)
    operation = re.search(r"OpType=(\w{1,60})", text)
    rank = re.search(r"\[Rank (\d{1,6})\]|\[rank(\d{1,6})\]|\brank[ :=](\d{1,6})", text)
    data: dict[str, Any] = {"milliseconds": int(ran[1])} if ran else {}
    data |= {"operation": operation[1]} if operation else {}
    return data | ({"rank": int(rank[1] or rank[2] or rank[3])} if rank else {})


def scale(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return the new loss scale."""
    number = r"(\d{1,15}(?:\.\d{1,6})?(?:e[+-]?\d{1,3})?)"
    found = re.search(rf"(?:reducing (?:loss scale )?to|loss[_ ]scale to:?|loss_scale =) {number}", text)
    return {"loss_scale": float(found[1])} if found else {}


def checkpoint(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return the path of a checkpoint and how long it took (seconds), where the line says so."""
    timer = re.search(r"-checkpoint \.{3,}: \(\d[\d.]{0,15}, (\d{1,12}(?:\.\d{1,6})?)\)", text)
    if timer:
        return {"seconds": round(float(timer[1]) / 1000, 6)}  # Megatron's timers: (shortest, longest of the ranks) in ms
    took = re.search(r"(?:in|took|time:?) (?:\(s\):? ?)?(\d{1,7}(?:\.\d{1,9})?) ?(ms|seconds?|secs?|s|min)\b", text)
    data: dict[str, Any] = {"seconds": float(took[1]) * {"ms": 0.001, "min": 60.0}.get(took[2], 1.0)} if took else {}
    path = re.search(r"(?:^|[\s'\"=:(])([\w~.-]{0,100}/[\w./@:=-]{1,400})", text)
    return data | ({"path": path[1].rstrip(".,:")} if path else {})


def cancelled(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return job, host and time of a scheduler's message, and the `reason`: time_limit, preempted, node_failure, …"""
    job = re.search(r"(?:JOB|STEP) (\S{1,40}) ON (\S{1,100}) CANCELLED AT (\S{1,30})", text)
    data = dict(zip(("job", "host", "time"), job.groups(), strict=True)) if job else {}
    return data | {"reason": next(reason for reason, words in _REASONS.items() if re.search(words, text))}


def signal(text: str, _: re.Match[str]) -> dict[str, Any]:
    """Return the name of the signal."""
    name = re.search(r"\bSIG(?:TERM|INT|KILL|HUP|ABRT|SEGV|BUS|USR1)\b", text)
    number = re.search(r"[Ss]ignal:? ?(\d{1,2})\b|exitcode\s*: -(\d{1,2})|code = -(\d{1,2})", text)
    if name:
        return {"signal": name[0]}
    if number:
        digits = number[1] or number[2] or number[3]
        return {"signal": _SIGNALS.get(digits, digits)}
    return next(({"signal": known} for word, known in _WORDS.items() if word in text), {})

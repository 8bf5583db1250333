"""What an alert says, in the language of the channel: which run, what, since when, the likely cause, what to do, where."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from analysis.causes.time import DUMP
from analysis.findings import Severity, Standing
from messages import N_, Text
from server.alerts.occurrences import Occurrence
from server.alerts.plain import plain
from server.alerts.rules import GRAVITY, SETS
from server.alerts.sending import Message
from server.words import SEVERITIES, STANDINGS, VERDICTS, number, say, translate
from storage.keeping.outbox import Alert

MAX_NAME, MAX_TITLE, MAX_SENTENCE, MAX_LISTED = 80, 160, 320, 8
MAX_BYTES = 1900  # of a whole message: WeCom takes no more than 2,048
CLIP = N_("Clip or pause: clip gradients (max_norm 1.0), or pause the run until you have looked. Runvitals does not touch it.")
EXTRA = dict.fromkeys(SETS["spikes"], CLIP) | {"hang": DUMP, "collective_timeout": DUMP}


def compose(alerts: Sequence[Alert], language: str, root: str) -> Message:
    """Return the message about alerts (one or more): in full where they are of one run, else a digest.

    root: the address of the pages, with / at the end.
    """
    pairs = [(alert, Occurrence.from_dict(alert.data)) for alert in alerts]
    pairs.sort(key=lambda pair: -GRAVITY[pair[1].severity])
    lead, first = pairs[0]
    alone = len({alert.run for alert in alerts}) == 1
    about = _title(first, language) if alone else say(Text(N_("{n} alerts"), {"n": len(alerts)}), language)
    title = f"[Runvitals] {about}"
    lines = _of_run(pairs, language, root) if alone else _digest(pairs, language, root)
    facts = _facts(lead, first, language, root) if alone else {}
    facts = {"id": lead.id, **facts, "alerts": [_facts(alert, one, language, root) for alert, one in pairs[:100]]}
    return Message(title, bounded(lines, MAX_BYTES - len(title.encode())), first.severity is Severity.CRITICAL, facts)


def trial(language: str, root: str) -> Message:
    """Return the message that tries a channel."""
    body = say(Text(N_("This channel works. Alerts about your training runs will come here.")), language)
    title = translate(N_("A test"), language)
    return Message(f"[Runvitals] {title}", f"{body}\n{root}alerts", False, {"id": "test", "alerts": []})


def bounded(lines: Sequence[str], most_bytes: int) -> str:
    """Return lines as one text of so many bytes at most; the last line, which is the link, stays, those before it are cut."""
    *kept, last = lines
    while kept and len("\n".join([*kept, last]).encode()) > most_bytes:
        kept.pop()
    return "\n".join([*kept, last])


def link(alert: Alert, one: Occurrence, root: str) -> str:
    """Return the address of the run, at the finding where there is one."""
    query = {"run": alert.run} | ({"finding": one.key} if one.kind not in SETS["verdict"] + SETS["end"] else {})
    return f"{root}health?{urlencode(query)}"


def _title(one: Occurrence, language: str) -> str:
    word = translate(SEVERITIES[one.severity], language)
    return f"{word}: {plain(one.run_name, MAX_NAME)} — {plain(say(one.title, language), MAX_TITLE)}"


def _of_run(pairs: Sequence[tuple[Alert, Occurrence]], language: str, root: str) -> list[str]:
    alert, one = pairs[0]
    verdict = translate(VERDICTS.get(one.verdict, one.verdict), language)
    lines = [plain(one.run_name, MAX_NAME), f"{verdict}: {plain(say(one.sentence, language), MAX_SENTENCE)}"]
    if one.title != one.sentence:
        lines.append(plain(say(one.title, language), MAX_SENTENCE))
    if one.first_step is not None:
        lines.append(say(Text(N_("Since step {step}"), {"step": number(one.first_step, language)}), language))
    if one.cause:
        word = translate(STANDINGS[Standing(one.standing)], language)
        lines.append(f"{word}: {plain(say(one.cause, language), MAX_SENTENCE)}")
    if one.advice:
        lines.append(f"{translate(N_('Do now'), language)}: {plain(say(one.advice, language), MAX_SENTENCE)}")
    said = one.advice.template if one.advice else ""
    extras = {EXTRA[each.kind] for _alert, each in pairs if each.kind in EXTRA} - {said}
    lines += [translate(words, language) for words in sorted(extras)]
    also = [plain(say(each.title, language), MAX_TITLE) for _alert, each in pairs[1:] if each.title != one.sentence]
    lines += [f"+ {words}" for words in dict.fromkeys(also[:MAX_LISTED])]
    return [*lines, link(alert, one, root)]


def _digest(pairs: Sequence[tuple[Alert, Occurrence]], language: str, root: str) -> list[str]:
    lines = [
        say(Text(N_("More came than this channel takes in an hour; here they are together, the gravest first.")), language)
    ]
    lines += [_title(one, language) for _alert, one in pairs[:MAX_LISTED]]
    if len(pairs) > MAX_LISTED:
        lines.append(say(Text(N_("… and {n} more"), {"n": len(pairs) - MAX_LISTED}), language))
    return [*lines, f"{root}alerts"]


def _facts(alert: Alert, one: Occurrence, language: str, root: str) -> Mapping[str, Any]:
    """Return an alert for programs."""
    return {
        "id": alert.id,
        "run": alert.run,
        "run_name": plain(one.run_name, MAX_NAME),
        "class": one.kind,
        "severity": str(one.severity),
        "verdict": one.verdict,
        "first_step": one.first_step,
        "what": plain(say(one.title, language), MAX_SENTENCE),
        "link": link(alert, one, root),
    }

"""What the page of alerts says: what was alerted and what became of it, the rules and the channels, in words."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from messages import Text
from server import service
from server.alerts.channels import FORMS, Channel, channels, deleted_names, used
from server.alerts.occurrences import Occurrence
from server.alerts.rules import ENDED, FAILED, SET_WORDS, SICK, STOCK, AlertRule
from storage.keeping import outbox
from storage.keeping.outbox import Alert, Delivery
from ui import state, tags, text, verdict
from ui.html import escape, icon, tag
from ui.text import _, ago, duration, moment, ngettext, say

SHOWN = 50
LANGUAGES = text.LANGUAGES


def history(most: int = SHOWN) -> list[str]:
    """Return the newest alerts as cards, the newest first."""
    found = state.store().outbox.alerts(most=most)
    there = {run.id for run in state.store().runs({alert.run for alert in found})} if found else set()
    gone = {key: _("{name} (deleted)").format(name=name) for key, name in deleted_names(state.store()).items()}
    ways = gone | {channel.id: channel.name for channel in channels(state.store())}
    on_the_way: dict[str, list[Delivery]] = {}
    for delivery in state.store().outbox.deliveries([alert.id for alert in found]) if found else ():
        on_the_way.setdefault(delivery.alert, []).append(delivery)
    return [_card(alert, on_the_way.get(alert.id, []), ways, there) for alert in found]


def _card(alert: Alert, deliveries: Sequence[Delivery], ways: Mapping[str, str], there: Iterable[str]) -> str:
    one = Occurrence.from_dict(alert.data)
    look = verdict.SEVERITIES[one.severity]
    name = tag("b", escape(one.run_name))
    if alert.run in there:
        finding = {} if one.kind in (SICK, FAILED, ENDED) else {"finding": one.key}
        name = tag("a", escape(one.run_name), href=_address(alert.run, finding), target="_self")
    badge = tag("span", icon(look.icon) + escape(_(look.word)), "rv-badge")
    first = tag("p", badge + tag("b", escape(say(one.title))), "rv-alert")
    by = ", ".join(rule_name(each) for each in one.rules)
    when = tag("time", escape(ago(alert.made)), title=moment(alert.made), datetime=alert.made.isoformat())
    second = tag("p", f"{name} · {when} · {escape(by)}", "rv-quiet")
    words = [_delivery(each, one, alert.made, ways) for each in deliveries] or [
        ("inbox", _("In the app only: its rule has no channel."))
    ]
    ways_html = "".join(tag("p", icon(sign) + " " + escape(sentence), "rv-quiet") for sign, sentence in words)
    return tag("article", first + second + ways_html, f"rv-aspect {look.css}")


def _address(run: str, more: Mapping[str, str]) -> str:
    return "health?" + "&".join(f"{key}={value}" for key, value in {"run": run, **more}.items())


def _delivery(delivery: Delivery, one: Occurrence, made: datetime, ways: Mapping[str, str]) -> tuple[str, str]:
    """Return a sign and what became of a message."""
    gaps = {"channel": ways.get(delivery.channel, _("a deleted channel")), "reason": ""}
    if delivery.answer:
        gaps["reason"] = say(Text.from_dict(delivery.answer))
    if delivery.state == outbox.SENT and delivery.done:
        since = made.timestamp() if one.line_at is None else one.line_at
        gaps["delay"] = duration(max(0.0, delivery.done.timestamp() - since))
        if one.line_at is None:
            return "done", _("{channel}: sent, {delay} after it became known").format(**gaps)
        return "done", _("{channel}: sent, {delay} after the line came").format(**gaps)
    if delivery.state == outbox.FAILED:
        return "close", _("{channel}: given up. {reason}").format(**gaps)
    if delivery.tries:
        gaps["wait"] = duration(max(0.0, (delivery.due - datetime.now(UTC)).total_seconds()))
        return "schedule", _("{channel}: not sent yet, next try in {wait}. {reason}").format(**gaps)
    return "schedule", _("{channel}: waiting to be sent").format(**gaps)


def rule_name(name: str) -> str:
    """Return the name of a rule; those of the stock rules are translated."""
    return _(name) if name in {rule.name for rule in STOCK.values()} else name


def what_words() -> dict[str, str]:
    """Return what a rule may be about: sets first, then each class of findings."""
    classes = {name: _(title) for name, title in sorted(verdict.titles().items(), key=lambda pair: _(pair[1]))}
    return {name: _(words) for name, words in SET_WORDS.items()} | classes


def about(rule: AlertRule, ways: Mapping[str, str]) -> str:
    """Return in one line what a rule is about: what, from which severity on, which runs, told by which channels."""
    words = what_words()
    what = ", ".join(words.get(each, each) for each in rule.what)
    least = _(verdict.SEVERITIES[rule.least].word) if any(token not in ("verdict", "end") for token in rule.what) else ""
    runs = [_("project {name}").format(name=each) for each in rule.projects]
    runs += [_("tag {name}").format(name=each) for each in rule.tags] + list(rule.names)
    named = ", ".join(ways[each] for each in rule.channels if each in ways)
    parts = [
        what,
        _("from {severity} on").format(severity=least) if least else "",
        ", ".join(runs) or _("all runs"),
        _("told by {channels}").format(channels=named) if named else _("in the app only"),
        _("not again within {time}").format(time=duration(rule.quiet_minutes * 60)) if rule.quiet_minutes else "",
    ]
    return " · ".join(part for part in parts if part)


def about_channel(channel: Channel) -> str:
    """Return where a channel leads, without its secrets."""
    parts = [_(FORMS[channel.kind].title), channel.place, LANGUAGES.get(channel.language, channel.language)]
    return " · ".join(dict.fromkeys(parts))


def standing() -> str:
    """Return in one sentence whether anybody is told."""
    ways = used(state.store())
    if not channels(state.store()):
        return _("Nothing leaves this server yet: what goes wrong is only listed here. Add a channel, and somebody is told.")
    if not ways:
        return _("There is a channel, but no rule that is on uses it: nobody is told.")
    told = ngettext("{n} channel tells people", "{n} channels tell people", len(ways))
    return _("{told} of what goes wrong in live runs, while no page is open.").format(told=told)


def link_warning() -> str:
    """Return what is wrong with the links in messages, empty if nothing is."""
    root = service.get().alerts.root()
    local = root.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]")) or not root
    if not local or not channels(state.store()):
        return ""
    return _("Links in messages lead to this machine ({root}). Set public_url to the address that people use.").format(
        root=root or "–"
    )


def projects() -> list[str]:
    """Return the projects of all runs."""
    return sorted({line.project for line in service.get().board.lines() if line.project})


def known_tags() -> list[str]:
    """Return all tags that runs have."""
    return sorted({name for each in tags.by_run().values() for name in each})

"""Channels: how people are told. Each is a form of a few fields, of which the address of one service of Apprise is made.

What a form asks for stands here as data; pages draw it. A secret is kept and used, and never shown again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from uuid import uuid4

from messages import N_, Text
from server.alerts.rules import rules
from storage.store import Store

KIND = "alert_channel"
DELETED = "alert_channel_deleted"  # the name that it had: what it sent or did not send is still told
PER_HOUR = 10  # messages, unless a channel says otherwise
MOST_CHANNELS, MAX_FIELD = 50, 2000
SECURITY = {"starttls": 587, "tls": 465, "none": 25}  # how mail is sent, with the usual port

Fields = Mapping[str, str]


class BadChannel(ValueError):
    """A channel that can't be: `message` says which field is wrong."""

    def __init__(self, message: Text) -> None:
        super().__init__(message.render())
        self.message = message


@dataclass(frozen=True)
class Field:
    """One field of a form; `secret`: it is never shown again; `options`: it is one of these."""

    key: str
    label: str
    help: str = ""
    secret: bool = False
    needed: bool = True
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """What a kind of channel asks for; address: makes the Apprise URL of it; place: where it leads, without its secrets."""

    title: str
    icon: str
    fields: tuple[Field, ...]
    address: Callable[[Fields], str]
    place: Callable[[Fields], str]


@dataclass(frozen=True)
class Channel:
    """A way to tell people. language: of its messages; per_hour: how many messages at most, what is more comes as one."""

    id: str
    name: str
    kind: str
    fields: Fields
    language: str = "en"
    per_hour: int = PER_HOUR

    @property
    def address(self) -> str:
        """Return the URL for Apprise, secrets included. Raises BadChannel."""
        form = FORMS[self.kind]
        for field in form.fields:
            if field.needed and not self.fields.get(field.key):
                raise BadChannel(Text(N_("{field} is missing."), {"field": Text(field.label)}))
        return form.address(self.fields)

    @property
    def place(self) -> str:
        """Return where it leads in a few words, without secrets."""
        return FORMS[self.kind].place(self.fields)


def new_channel() -> Channel:
    """Return a channel to begin with, which is not kept yet."""
    return Channel(uuid4().hex[:8], "", "webhook", {})


def channels(store: Store) -> list[Channel]:
    """Return all channels, by name."""
    found = [Channel(one.name, **one.data) for one in store.kept(KIND, run="")]
    return sorted((one for one in found if one.kind in FORMS), key=lambda one: one.name.lower())


def deleted_names(store: Store) -> dict[str, str]:
    """Return by id the names that deleted channels had."""
    return {one.name: str(one.data["name"]) for one in store.kept(DELETED, run="")}


def used(store: Store) -> set[str]:
    """Return the ids of the channels that a rule uses that is on."""
    return {each for rule in rules(store) if rule.on for each in rule.channels} & {each.id for each in channels(store)}


def save(store: Store, channel: Channel, *, who: str = "") -> None:
    """Keep a channel in the place of the one with its id, and let what waits for it go. Raises BadChannel, StoreError."""
    if not channel.address:
        raise BadChannel(Text(N_("This is no address.")))
    known = {each.id for each in channels(store)}
    if channel.id not in known and len(known) >= MOST_CHANNELS:
        raise BadChannel(Text(N_("More than {most} channels are not kept."), {"most": MOST_CHANNELS}))
    store.keep(KIND, channel.id, {key: value for key, value in asdict(channel).items() if key != "id"}, who=who)
    store.outbox.hurry(channel.id)


def delete(store: Store, channel: Channel) -> None:
    """Delete a channel, all but its name; `save` brings it back."""
    store.keep(DELETED, channel.id, {"name": channel.name})
    store.drop(KIND, channel.id)


def _webhook(fields: Fields) -> str:
    parts = _web_address(fields["url"])
    query = [(f"-{key}", value) for key, value in parse_qsl(parts.query, keep_blank_values=True)]
    if fields.get("authorization"):
        query.append(("+Authorization", fields["authorization"]))
    schema = "jsons" if parts.scheme == "https" else "json"
    address = f"{schema}://{parts.netloc}{parts.path or '/'}"
    return f"{address}?{urlencode(query, quote_via=quote)}" if query else address


def _web_address(url: str) -> Any:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadChannel(Text(N_("The address must begin with https:// or http://.")))
    return parts


def _host(fields: Fields) -> str:
    parts = urlsplit(fields.get("url", ""))
    return f"{parts.scheme}://{parts.hostname}/…"


def _token(pattern: str, schema: str, example: str) -> Callable[[Fields], str]:
    """Return what makes an Apprise URL of the address of a webhook, whose secret `pattern` finds."""

    def address(fields: Fields) -> str:
        found = re.match(pattern, fields["url"].strip(), re.I)
        if not found:
            raise BadChannel(Text(N_("The address looks like this: {example}"), {"example": example}))
        return f"{schema}://{found[1]}"

    return address


def _slack(fields: Fields) -> str:
    # Plain text: by default Apprise lets Slack read marks (*, <!channel>) in a message.
    address = _token(
        r"https://hooks\.slack\.com/services/(\w+/\w+/\w+)/?$", "slack", "https://hooks.slack.com/services/T…/B…/…"
    )
    return f"{address(fields)}/?image=no&footer=no&format=text"


def _feishu(fields: Fields) -> str:
    lark = "larksuite" in fields["url"]
    pattern = r"https://open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/([\w-]+)/?$"
    return _token(pattern, "lark" if lark else "feishu", "https://open.feishu.cn/open-apis/bot/v2/hook/…")(fields)


def _dingtalk(fields: Fields) -> str:
    pattern = r"https://oapi\.dingtalk\.com/robot/send\?access_token=(\w+)$"
    address = _token(pattern, "dingtalk", "https://oapi.dingtalk.com/robot/send?access_token=…")(fields)
    secret = fields.get("secret", "").strip()
    return address.replace("://", f"://{secret}@") + "/" if secret else f"{address}/"


_wecom = _token(
    r"https://qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=([\w-]+)$",
    "wecombot",
    "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…",
)


def _mail(fields: Fields) -> str:
    security = fields["security"]
    port = fields.get("port", "").strip() or str(SECURITY[security])
    if not port.isdigit():
        raise BadChannel(Text(N_("The port must be a number.")))
    host, user = fields["host"].strip(), fields.get("user", "").strip()
    login = f"{quote(user, safe='')}:{quote(fields.get('password', ''), safe='')}@" if user else ""
    wish = {"from": fields["sender"].strip(), "to": ",".join(_people(fields)), "smtp": host, "format": "text"}
    wish |= {"mode": "ssl" if security == "tls" else "starttls" if security == "starttls" else "insecure"}
    return f"{'mailto' if security == 'none' else 'mailtos'}://{login}{host}:{port}?{urlencode(wish, quote_via=quote)}"


def _people(fields: Fields) -> list[str]:
    return [each for each in re.split(r"[\s,;]+", fields.get("to", "")) if each]


def _other(fields: Fields) -> str:
    url = fields["url"].strip()
    if not re.match(r"[a-z0-9+.-]+://\S", url, re.I) or any(mark.isspace() for mark in url):
        raise BadChannel(Text(N_("The address looks like this: {example}"), {"example": "ntfy://ntfy.example.org/topic"}))
    return url


def _robot(name: str) -> Callable[[Fields], str]:
    return lambda fields: name


URL = N_("Address of the webhook")
FORMS: Mapping[str, Form] = {
    "webhook": Form(
        N_("Webhook (JSON)"),
        "webhook",
        (
            Field("url", N_("Address"), N_("It gets one POST with JSON for each message: see docs/alerts.md."), secret=True),
            Field("authorization", N_("Header Authorization"), N_("For example: Bearer …"), secret=True, needed=False),
        ),
        _webhook,
        _host,
    ),
    "slack": Form(
        N_("Slack"),
        "tag",
        (Field("url", URL, N_("In Slack: Apps, Incoming WebHooks, Add to Slack; copy the Webhook URL."), secret=True),),
        _slack,
        _robot("hooks.slack.com"),
    ),
    "mail": Form(
        N_("Mail"),
        "mail",
        (
            Field("to", N_("To"), N_("One address, or several with commas.")),
            Field("sender", N_("Sender")),
            Field("host", N_("Mail server (SMTP)")),
            Field("security", N_("Connection"), options=tuple(SECURITY)),
            Field("port", N_("Port"), N_("Empty: 587, with TLS 465, without encryption 25."), needed=False),
            Field("user", N_("User"), N_("Empty where the server asks for none."), needed=False),
            Field("password", N_("Password"), secret=True, needed=False),
        ),
        _mail,
        lambda fields: ", ".join(_people(fields)),
    ),
    "feishu": Form(
        N_("Feishu / Lark"),
        "send",
        (
            Field(
                "url",
                URL,
                N_("In the group: Settings, Bots, Custom Bot. As security setting choose the keyword Runvitals."),
                secret=True,
            ),
        ),
        _feishu,
        _robot("open.feishu.cn"),
    ),
    "dingtalk": Form(
        N_("DingTalk"),
        "forum",
        (
            Field(
                "url",
                URL,
                N_("In the group: Settings, Robots, Custom. As security setting choose a signature or the keyword Runvitals."),
                secret=True,
            ),
            Field("secret", N_("Signature (SEC…)"), N_("Only if the robot asks for it."), secret=True, needed=False),
        ),
        _dingtalk,
        _robot("oapi.dingtalk.com"),
    ),
    "wecom": Form(
        N_("WeCom"),
        "groups",
        (Field("url", URL, N_("In the group: Add Group Bot; copy its webhook address."), secret=True),),
        _wecom,
        _robot("qyapi.weixin.qq.com"),
    ),
    "other": Form(
        N_("Any other (Apprise URL)"),
        "hub",
        (
            Field(
                "url",
                N_("Apprise URL"),
                N_("Teams, Telegram, Discord, ntfy, PagerDuty and a hundred more: appriseit.com lists their addresses."),
                secret=True,
            ),
        ),
        _other,
        lambda fields: f"{fields.get('url', '').partition('://')[0]}://…",
    ),
}
SECURITY_WORDS = {
    "starttls": N_("encrypted (STARTTLS)"),
    "tls": N_("encrypted from the start (TLS)"),
    "none": N_("not encrypted"),
}

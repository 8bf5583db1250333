"""What really leaves the server, to a real HTTP or mail server, and what its answer is taken for."""

import io
import logging
import socket
from email import message_from_bytes
from email.header import decode_header, make_header

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from server.alerts.channels import BadChannel, Channel
from server.alerts.sending import Message, send
from tests.receiver import receiving

HOSTILE = "<!channel> @everyone <b>bold</b> & [x](http://evil.example)"
MESSAGE = Message("[Runvitals] a title", f"first line\n{HOSTILE}", True, {"id": "abc", "class": "non_finite"})


def channel(kind, **fields):
    return Channel("c", "Somebody", kind, fields)


def refused(channel, message=MESSAGE):
    answer = send(channel, message)
    return None if answer is None else answer.render()


def test_a_webhook_gets_json_with_its_query_and_header():
    with receiving() as other:
        assert refused(channel("webhook", url=f"{other.url}/a/b?team=ml&x=1", authorization="Bearer s3cret-token")) is None
    ((path, headers, _body),) = other.got
    assert path == "/a/b?team=ml&x=1"
    assert headers["authorization"] == "Bearer s3cret-token"
    (body,) = other.bodies()
    assert (body["title"], body["message"], body["type"]) == (MESSAGE.title, MESSAGE.body, "failure")
    assert (body["id"], body["class"]) == ("abc", "non_finite")


def robots(monkeypatch, url):
    """Let the robots of Apprise speak to a server of our own."""
    from apprise.plugins.dingtalk import NotifyDingTalk
    from apprise.plugins.feishu import NotifyFeishu
    from apprise.plugins.slack import NotifySlack
    from apprise.plugins.wecombot import NotifyWeComBot

    monkeypatch.setattr(NotifyDingTalk, "notify_url", url + "/ding?access_token={token}")
    monkeypatch.setattr(NotifyFeishu, "notify_url", url + "/feishu/{token}/")
    monkeypatch.setattr(NotifyWeComBot, "notify_url", url + "/wecom?key={key}")
    monkeypatch.setattr(NotifySlack, "webhook_url", url + "/slack")


ROBOTS = {
    "slack": {"url": "https://hooks.slack.com/services/T00000000/B00000000/abcdefabcdefabcdefabcdef"},
    "feishu": {"url": "https://open.feishu.cn/open-apis/bot/v2/hook/0123abcd-0123-4567-89ab-0123456789ab"},
    "dingtalk": {"url": "https://oapi.dingtalk.com/robot/send?access_token=0123456789abcdef", "secret": "SEC0123456789"},
    "wecom": {"url": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=0123abcd-0123-4567"},
}
SAID = {
    "slack": lambda body: body["attachments"][0]["text"] if "attachments" in body else body["text"],
    "feishu": lambda body: body["content"]["text"],
    "dingtalk": lambda body: body["text"]["content"],
    "wecom": lambda body: body["text"]["content"],
}


@pytest.mark.parametrize("kind", ROBOTS)
def test_a_chat_robot_gets_plain_text(monkeypatch, kind):
    answer = b'{"errcode": 0, "errmsg": "ok", "code": 0}' if kind != "slack" else b"ok"
    with receiving(answer=answer) as other:
        robots(monkeypatch, other.url)
        assert refused(channel(kind, **ROBOTS[kind])) is None
    (body,) = other.bodies()
    text = SAID[kind](body)
    assert "first line\n" in text
    assert body.get("msgtype", "text") == body.get("msg_type", "text") == "text"
    if kind == "slack":
        assert "&lt;!channel&gt;" in text
        assert body["attachments"][0].get("mrkdwn_in") is None
    if kind == "dingtalk":
        assert body["at"] == {"atMobiles": [], "isAtAll": False}
        assert "sign=" in other.got[0][0]


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
def test_a_robot_that_refuses_with_200_has_refused(monkeypatch, kind):
    name = "code" if kind == "feishu" else "errcode"
    text = "msg" if kind == "feishu" else "errmsg"
    with receiving(answer=f'{{"{name}": 310000, "{text}": "keywords not in content"}}'.encode()) as other:
        robots(monkeypatch, other.url)
        said = refused(channel(kind, **ROBOTS[kind]))
    assert "keywords not in content" in said


def test_what_the_other_side_answers_is_told_without_secrets_and_no_log_has_them():
    written, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(written), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with receiving(status=403, answer=b"no such hook: hunter2hunter2") as other:
            said = refused(channel("webhook", url=f"{other.url}/hooks/hunter2hunter2"))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert said == "It answered 403: no such hook: …"
    assert "hunter2" not in written.getvalue()


def test_a_redirect_is_not_followed():
    with receiving() as elsewhere, receiving(status=307) as other:
        assert "307" in refused(channel("webhook", url=other.url))
    assert elsewhere.got == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://127.0.0.1:1/hunter2hunter2", "It can't be reached: nobody listens there (connection refused)."),
        ("https://127.0.0.1:1/x", "It can't be reached: nobody listens there (connection refused)."),
        ("ftp://example.org", "The address must begin with https:// or http://."),
    ],
)
def test_what_can_not_be_reached_is_said(url, sentence):
    assert refused(channel("webhook", url=url)) == sentence


def test_a_server_that_speaks_no_tls_is_said():
    with receiving() as other:
        said = refused(channel("webhook", url=other.url.replace("http", "https")))
    assert said == "It can't be reached: its certificate or encryption was not accepted."


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr("server.alerts.sending.READ_SECONDS", 0.2)
    with receiving() as other:
        other.hold.clear()
        assert refused(channel("webhook", url=other.url)) == "It can't be reached: it did not answer in time."


@pytest.mark.parametrize(
    ("kind", "fields", "sentence"),
    [
        ("slack", {"url": "https://hooks.slack.com/x"}, "The address looks like this"),
        ("dingtalk", {"url": "https://example.org/robot"}, "The address looks like this"),
        ("webhook", {}, "Address is missing."),
        ("mail", {"to": "a@example.org", "sender": "b@example.org", "host": "h", "security": "tls", "port": "x"}, "The port"),
        ("other", {"url": "not an address"}, "The address looks like this"),
    ],
)
def test_a_field_that_can_not_be_is_named(kind, fields, sentence):
    with pytest.raises(BadChannel, match=sentence):
        _ = channel(kind, **fields).address


def test_an_address_that_nobody_understands_is_said():
    assert refused(channel("other", url="nothing-of-the-kind://x")) == "This is no address that Apprise understands."


class Mailbox:
    """What a mail server does with a message: keep it."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(envelope)
        return "250 OK"


@pytest.fixture
def mail_server():
    box = Mailbox()

    def check(server, session, envelope, mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"me@example.org", b"pass:w/rd@1"), handled=False)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(
        box, hostname="127.0.0.1", port=port, authenticator=check, auth_required=True, auth_require_tls=False
    )
    controller.start()
    yield box, port
    controller.stop()


def mail(port, **fields):
    given = {"to": "a@example.org, b@example.org", "sender": "runs@example.org", "host": "127.0.0.1", "port": str(port)}
    return channel("mail", **given | {"security": "none", "user": "me@example.org", "password": "pass:w/rd@1"} | fields)


def test_a_mail_arrives_as_plain_text_with_one_subject(mail_server):
    box, port = mail_server
    assert refused(mail(port), Message("[Runvitals] 损失 Bcc: x@evil.example", "第一行\nsecond", True, {})) is None
    assert sorted(envelope.rcpt_tos[0] for envelope in box.mails) == ["a@example.org", "b@example.org"]
    got = message_from_bytes(box.mails[0].content)
    assert str(make_header(decode_header(got["Subject"]))) == "[Runvitals] 损失 Bcc: x@evil.example"
    assert got["Bcc"] is None
    assert "runs@example.org" in got["From"]
    assert got.get_content_type() == "text/plain"
    assert "第一行" in got.get_payload(decode=True).decode()


def test_a_wrong_password_is_said(mail_server):
    _box, port = mail_server
    assert refused(mail(port, password="wrong-password")) == "It can't be reached: user or password were not accepted."


def test_a_mail_server_that_is_not_there_is_said():
    assert "connection refused" in refused(mail(1))

"""What a message says, in both languages, and that text of a log does nothing in it."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from analysis.findings import Severity
from messages import Text
from server.alerts.message import MAX_BYTES, compose, trial
from server.alerts.occurrences import Occurrence
from server.alerts.plain import plain
from storage.keeping.outbox import Alert

ROOT = "https://runs.example.org/"


def alert(
    kind="non_finite",
    severity=Severity.CRITICAL,
    run="run1",
    name="minimind",
    title="Loss is NaN or infinite since {step} (rows: {count:,})",
    **more,
):
    words = Text(title, {"step": "step 201", "count": 1, "what": more.pop("what", "")})
    one = Occurrence(
        kind, severity, 0, 201, None, words, "sick", words, run_name=name,
        cause=Text("The learning rate is too high"), standing="likely", advice=Text("Stop the run"), **more,
    )  # fmt: skip
    return Alert(uuid4().hex, run, one.to_dict(), datetime.now(UTC))


def test_a_message_says_what_where_why_and_what_to_do():
    one = alert()
    message = compose([one], "en", ROOT)
    assert message.title == "[Runvitals] Critical: minimind — Loss is NaN or infinite since step 201 (rows: 1)"
    lines = message.body.splitlines()
    assert lines[:2] == ["minimind", "Sick: Loss is NaN or infinite since step 201 (rows: 1)"]
    assert "Since step 201" in lines
    assert "Likely: The learning rate is too high" in lines
    assert "Do now: Stop the run" in lines
    assert any(line.startswith("Clip or pause") for line in lines)
    assert lines[-1] == f"{ROOT}health?run=run1&finding=non_finite%3A0%3A201"
    assert message.grave
    assert {key: message.facts[key] for key in ("id", "run", "class", "severity", "first_step")} == {
        "id": one.id, "run": "run1", "class": "non_finite", "severity": "critical", "first_step": 201,
    }  # fmt: skip


def test_a_hang_carries_the_command_that_dumps_the_stacks():
    assert "py-spy dump --pid PID" in compose([alert("hang")], "en", ROOT).body
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" in compose([alert("hang")], "zh_CN", ROOT).body


def test_a_message_in_chinese_is_chinese():
    message = compose([alert()], "zh_CN", ROOT)
    assert "损失" in message.title
    assert "Do now" not in message.body
    assert "Clip or pause" not in message.body
    assert "通道" in trial("zh_CN", ROOT).body


def test_alerts_of_one_run_are_one_message_the_gravest_first():
    message = compose([alert("spike", Severity.WARNING, title="A spike"), alert(title="NaN")], "en", ROOT)
    assert message.title.endswith("NaN")
    assert "+ A spike" in message.body


def test_alerts_of_many_runs_are_a_digest():
    message = compose([alert(run=f"run{number}", name=f"name{number}") for number in range(40)], "en", ROOT)
    assert message.title == "[Runvitals] 40 alerts"
    assert "… and 32 more" in message.body
    assert message.body.endswith(f"{ROOT}alerts")
    assert len(message.facts["alerts"]) == 40


HOSTILE = "@everyone <!channel> <@U123> <b>x</b> `rm -rf` [click](https://evil.example)\nSubject: x\r\n\u202eevil\u0000 ```"


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_text_of_a_log_calls_nobody_and_links_nowhere(language):
    message = compose([alert(name=HOSTILE, title="{what}", what=HOSTILE)], language, ROOT)
    for part in (message.title, message.body.rpartition("\n")[0], message.facts["run_name"], message.facts["what"]):
        assert not set("@<>`\u202e\u0000\r") & set(part)
        assert "://" not in part
        assert "](" not in part
    assert "\n" not in message.title


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_a_message_is_never_longer_than_every_channel_takes(language):
    long = [alert(name="名" * 5000, title="{what}", what="字" * 5000, kind=kind) for kind in ("hang", "spike", "plateau")]
    message = compose(long, language, ROOT)
    assert len((message.title + message.body).encode()) <= MAX_BYTES
    assert message.body.splitlines()[-1].startswith(ROOT)
    assert len(message.title) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\tb\nc", "a b c"), ("x" * 50, "x" * 9 + "…"), ("损失 1.5", "损失 1.5"), ("a\ud800b", "a b"), ("", "")],
)
def test_plain(text, said):
    assert plain(text, 10) == said

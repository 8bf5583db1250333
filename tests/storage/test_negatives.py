"""Texts that are no training log give no metric at all; and no role is claimed without evidence."""

import json
from pathlib import Path

import pytest

from storage.reader import LogReader
from storage.types import Column, ParseReport

ROOT = Path(__file__).parent.parent.parent

SOURCE = """import torch

def train(model, loader, lr=0.0005, loss_scale=3):
    for step, batch in enumerate(loader):
        loss = 0.5 * model(batch)
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}, lr: {lr}")
        if step == 10 and loss < 0.5: break
        if step == 20 and loss < 0.4: break
        if step == 30 and loss < 0.3: break
"""
CHAT = "".join(
    json.dumps({"role": role, "content": f"at step {n}00 the loss is 0.{n}, lr: 0.001"}) + "\n"
    for n, role in enumerate(["user", "assistant"] * 10)
)
GENERATIONS = "".join(
    f"Prompt {n}: why is the sky blue?\nAnswer {n}: Light of {400 + n} nm is scattered {n} times more than at {700 - n} nm.\n"
    f"The accuracy of such an answer is 0.{n} in my opinion; at step {n} the loss would be {n}.\n"
    for n in range(20)
)
TABLE = "id\tfile\tlines\tsize\tnote\n" + "".join(
    f"{n:03}\tlog-{n}.txt\t{n * 7}\t{n * 900}\tprinted twice\n" for n in range(30)
)
YAML = "model:\n  hidden_size: 512\ntrain:\n  lr: 0.0005\n  max_steps: 1000\n  aux_loss_alpha: 0.1\n  loss_scale: 128\n"
REQUIREMENTS = "torch==2.4.1\nnumpy>=1.26\ntransformers==4.44.0\naccelerate~=0.33.0\n"
ACCESS = "".join(
    f'192.0.2.{n} - - [05/Mar/2024:10:20:{n:02} +0000] "GET /loss?step={n} HTTP/1.1" 200 {512 + n} "-" "curl/8.0"\n'
    for n in range(40)
)
PYTEST = "".join(f"tests/test_loss.py::test_step_{n} PASSED [{n * 2:3}%]\n" for n in range(40)) + "40 passed in 3.21s\n"

BARE = "".join(f"{(n * 37 % 101) / 101:.4f}\n" for n in range(100))

NEGATIVES = {
    "numbers without a name": BARE,
    "source": SOURCE, "chat": CHAT, "generations": GENERATIONS, "table": TABLE, "yaml": YAML,
    "requirements": REQUIREMENTS, "access log": ACCESS, "pytest": PYTEST,
    "readme": (ROOT / "README.md").read_text(encoding="utf-8"),
}  # fmt: skip


def report_of(text: str) -> tuple[int, ParseReport]:
    reader = LogReader("sample")
    batches = reader.feed(text.encode()) + reader.finish()
    return sum(batch.rows.num_rows for batch in batches), reader.report()


@pytest.mark.parametrize("name", NEGATIVES)
def test_what_is_no_log_gives_no_row(name: str) -> None:
    rows, report = report_of(NEGATIVES[name])
    assert rows == 0
    assert report.records == 0
    assert not report.columns


ROLES = [
    ("step: {n}, kl_loss_coef: 0.5, loss: {v}", "kl_loss_coef", "loss"),
    ("step: {n}, loss_scale: 128, loss: {v}", "loss_scale", "loss"),
    ("step: {n}, aux_loss_alpha: 0.1, loss: {v}", "aux_loss_alpha", "loss"),
    ("step: {n}, box_loss: 0.5, loss: {v}", "box_loss", "loss"),
]


def columns_of(text: str) -> dict[str, Column]:
    return {column.name: column for column in report_of(text)[1].columns}


@pytest.mark.parametrize(("line", "other", "loss"), ROLES)
def test_only_the_loss_has_the_role_of_the_loss(line: str, other: str, loss: str) -> None:
    found = columns_of("".join(line.format(n=n, v=3 - n / 10) + "\n" for n in range(12)))
    assert found[loss].role == "loss"
    assert found[other].role not in ("loss", "main_loss")


@pytest.mark.parametrize("name", ["kl_loss_coef", "loss_scale", "aux_loss_alpha", "train/box_loss", "val/box_loss"])
def test_a_name_alone_never_makes_the_loss(name: str) -> None:
    found = columns_of(f"epoch,{name},lr/pg0\n" + "".join(f"{n},{2 - n / 10},0.01\n" for n in range(12)))
    assert not [column for column in found.values() if column.role in ("loss", "main_loss")]


def test_an_entropy_loss_without_a_known_sign_is_no_entropy() -> None:
    found = columns_of("".join(f"step: {n}, loss: 2.5, entropy_loss: -0.5\n" for n in range(12)))
    assert found["entropy_loss"].role is None


def test_a_list_of_lines_with_gaps_is_source_code() -> None:
    lines = "".join(f'    ("step: {{i}}/900 loss: 2.5 lr: 0.0003", {{"step": {n}, "loss": 2.5}}),\n' for n in range(9))
    assert report_of(f"LINES = [\n{lines}]\n")[0] == 0


def test_a_chat_that_quotes_one_step_again_and_again_is_no_log() -> None:
    said = ["Ann: did the loss go below 2.1?", "Bob: no: loss 3.4 at step 2000, lr: 3e-4", "Ann: try lr: 1e-4"]
    text = "".join(f"[2026-01-21, 10:{at % 60:02}] {said[at % 3]}\n" for at in range(150))
    assert report_of(text)[1].records == 0

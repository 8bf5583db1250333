"""Bars that grow from line to line are one form, whoever draws them; what stands behind one is the step."""

import pytest

from tests.storage.test_families import read


def eighths(step: int) -> str:
    whole, rest = divmod(step * 10, 100)
    return "█" * whole + ("" if whole == 10 else " ▏▎▍▌▋▊▉"[rest * 8 // 100])


BARS = {
    "hashes and dots": lambda step: f"[{'#' * (step // 4)}{'.' * (25 - step // 4)}]",
    "hashes": lambda step: f"[{'#' * (step // 4):25}]",
    "arrow": lambda step: f"[{'=' * (step // 4)}>{'.' * (25 - step // 4)}]",
    "eighths": lambda step: f"|{eighths(step):10}|",
    "blocks and dashes": lambda step: f"|{'█' * (step // 4)}{'-' * (25 - step // 4)}|",
    "lines": lambda step: "━" * (step * 2 // 5) + "╸" + " " * (39 - step * 2 // 5),
    "shades": lambda step: "█" * (step // 4) + "░" * (25 - step // 4),
    "squares": lambda step: "■" * (step // 4) + "□" * (25 - step // 4),
    "stars": lambda step: f"[{'*' * (step // 4):25}]",
    "braille": lambda step: f"|{'⣿' * (step // 4):25}|",
}
FORMS = [
    "{bar} step {step}/100 loss {loss}",
    "step {step}/100 {bar} loss {loss}",
    "step {step} loss {loss} {bar}",
    "step: {step} | {bar} | loss: {loss}",
    "{step}%{bar} step={step} loss={loss}, lr=0.001",
    "step {step}/100 loss: {loss} {bar} lr: 0.01",
    "epoch 1: {bar} {step}/100 loss {loss}",
    "Training: {step}% {bar} {step}/100 [00:10<00:20, 2.00it/s] loss={loss} lr=0.1",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bar", BARS)
@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_bar_that_grows_is_one_form(form: str, bar: str, end: str) -> None:
    lines = [form.format(bar=BARS[bar](step), step=step, loss=3 - step / 128) + end for step in range(1, 101)]
    rows, report = read("".join(lines))
    assert [(row["step"], row["loss"]) for row in rows] == [(step, 3 - step / 128) for step in range(1, 101)]
    assert report.drifts == ()
    known = {"loss", "lr", "total_steps", "steps_per_epoch", "steps_per_second", "elapsed_seconds", "remaining_seconds"}
    assert {column.name for column in report.columns} <= known


def test_a_bar_of_rich_has_its_step_while_nothing_is_drawn_yet() -> None:
    rows, _ = read(
        "".join(f"Epoch 0/4 {' ' * 40} {step}/9000 0:00:01 • 0:45:00 2.00it/s train_loss: 2.5\n" for step in range(1, 9))
    )
    assert [(row["step"], row["remaining_seconds"]) for row in rows] == [(step, 2700) for step in range(1, 9)]

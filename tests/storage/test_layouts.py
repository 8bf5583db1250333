"""Lines read in place give the very numbers that the template gives, and no line that the template would refuse."""

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reader import LogReader
from storage.reading import layouts
from storage.reading.aligned import Layout
from storage.reading.fields import Plan
from storage.reading.layouts import Layouts
from storage.reading.plans import undeclared
from storage.reading.template import Template
from storage.reading.tokens import tokens

NUMBERS = (
    "2.5",
    "12.125",
    "-0.0625",
    "0.00012345",
    "1.412743E+01",
    "-3.2e-05",
    "7",
    "123456789012.345",
    "nan",
    "-inf",
    "5e-324",
)
OTHERS = ("1:02:03", "12:59", "3 days, 17:51:32", "1,234,567", "90,112", "+4.50")


def made(line: str) -> Template:
    found = tokens(line)
    plan = undeclared(line, found)
    assert isinstance(plan, Plan), line
    return Template(line, found, plan)


def shuffled(line: str, draw: random.Random) -> str:
    """Return the line with other digits in its numbers (clocks and dates stay what they can be)."""
    kinds = {"number", "value", "groups"}
    places = {place for token in tokens(line) if token.kind in kinds for place in range(token.start, token.end)}
    return "".join(draw.choice("0123456789") if i in places and c.isdigit() else c for i, c in enumerate(line))


def same(one: Any, other: Any) -> bool:
    return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)


def of_layouts(wanted: Template, lines: list[str]) -> dict[str, list[Any]]:
    """Return the columns that a layout of the first line gives, of those lines that have it (others stay None)."""
    known = Layouts()
    assert known._add(wanted, lines[0])
    result: dict[str, list[Any]] = {}
    for hit in known.read(pa.array(lines)):
        for name, column in wanted.columns(hit.values).items():
            into = result.setdefault(name, [None] * len(lines))
            for at, value in zip(hit.at.tolist(), column.to_pylist(), strict=True):
                into[at] = value
    return result


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from((*NUMBERS, *OTHERS)), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_every_number_is_what_the_template_reads(texts: list[str], draw: random.Random) -> None:
    line = "step: 120 | loss: 3.25 | " + " | ".join(f"m{chr(97 + i)}x: {text}" for i, text in enumerate(texts)) + "\n"
    wanted = made(line)
    lines = [line, *(shuffled(line, draw) for _ in range(20))]
    slow = wanted.read(pa.array(lines))
    try:
        Layout(line, tokens(line), wanted._wanted)
    except ValueError:
        return  # left to the template
    for name, values in of_layouts(wanted, lines).items():
        assert all(found is None or same(found, good) for found, good in zip(values, slow[name].to_pylist(), strict=True)), name


def test_stamps_and_units_and_signs() -> None:
    line = "2024-02-29 23:59:58,125 INFO step 7 loss: -1.50 time: 20.5ms mem: 12GB\n"
    lines = [
        line,
        line.replace("02-29", "12-31"),
        line.replace("2024-02-29", "2023-02-29"),
        line.replace("-1.50", "-0.00"),
        line.replace(",125", ",007"),
    ]
    wanted = made(line)
    slow = {name: column.to_pylist() for name, column in wanted.read(pa.array(lines)).items()}
    fast = of_layouts(wanted, lines)
    assert all(fast[name][row] == slow[name][row] for name in slow for row in (0, 1, 3, 4))
    assert all(column[2] is None for column in fast.values()), "a day that does not exist is left to the template"
    assert math.copysign(1, fast["loss"][3]) == -1


@pytest.mark.parametrize(
    "spoiled", ["boss: 3.25", "loss; 3.25", "loss: 3,25", "loss: 3.2a", "loss: -.25", "loss: 3:25", "LOSS: 3.25"]
)
def test_a_line_of_the_same_length_that_differs_in_a_letter_is_not_read(spoiled: str) -> None:
    line = "step: 120 | loss: 3.25 | lr: 0.001\n"
    lines = [line, line.replace("loss: 3.25", spoiled), line.replace("120", "٣20"), line]
    assert of_layouts(made(line), lines)["loss"] == [3.25, None, None, 3.25]


def test_text_before_a_number_may_be_of_any_letters() -> None:
    line = "步数 step: 120 | 损失 loss: 3.25 | lr: 0.001\n"
    assert of_layouts(made(line), [line, line.replace("120", "987")])["step_printed"] == [120, 987]


def test_lines_of_other_lengths_and_places_of_digits_are_told_apart() -> None:
    lines = [
        f"step: {10**i} loss: {2 + 1 / 2**j:.{j}f} lr: 0.{'0' * k}5\n" for i in range(9) for j in range(1, 7) for k in range(5)
    ]
    known = Layouts()
    for line in lines[::2]:
        assert known._add(made(line), line)
    hits = known.read(pa.array(lines))
    assert sorted(place for hit in hits for place in hit.at.tolist()) == list(range(0, len(lines), 2))
    for hit in hits:
        slow = hit.template.read(pa.array([lines[place] for place in hit.at.tolist()]))
        assert {name: column.to_pylist() for name, column in hit.template.columns(hit.values).items()} == {
            name: column.to_pylist() for name, column in slow.items()
        }


def test_texts_with_digits_at_the_same_places_take_turns() -> None:
    words = [f"{letter}{letter}" for letter in "abcdefghijkl"]
    lines = [f"step: 120 loss: 3.25 {word}: 1.5\n" for word in words]
    known = Layouts()
    for line in lines:
        assert known._add(made(line), line)
    read = sorted(place for hit in known.read(pa.array(lines)) for place in hit.at.tolist())
    assert read == list(range(len(lines) - layouts.OF_PATTERN, len(lines))), "the layouts learnt last"


def log(seed: int, rows: int = 9000) -> bytes:
    draw = random.Random(seed)
    lines = []
    for step in range(1, rows):
        loss = draw.choice((f"{draw.random() * 12:.4f}", f"{draw.random() * 12:.4f}", "nan", f"{draw.random():.3e}"))
        clock = f"{step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
        lr = draw.random() / 10 ** draw.randrange(6)
        lines.append(f"[2024-01-01 {clock}] step {step}/90000 | loss: {loss} | lr: {lr:.2e}")
        if draw.random() < 0.02:
            lines.append(draw.choice(("step 12/90000 | loss: 3.4.5 | lr", "a word", lines[-1][:-9], "loss: 2 of worker 7")))
    return ("\n".join(lines) + "\n").encode()


def rows_of(data: bytes, chunk: int) -> pa.Table:
    reader = LogReader("log")
    batches = [batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])]
    tables = [batch.rows for batch in batches + reader.finish()]
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    assert table.num_rows == reader.report().records
    return table.append_column("unparsed", pa.array([reader.report().unparsed_count] * table.num_rows))


@pytest.mark.parametrize("seed", range(3))
def test_a_log_reads_the_same_with_and_without_layouts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log(seed)
    with_layouts = [rows_of(data, size) for size in (1 << 22, 70_001)]
    monkeypatch.setattr(layouts, "MANY", 1 << 60)
    without = rows_of(data, 1 << 22)
    for found in with_layouts:
        assert found.column_names == without.column_names
        for name in found.column_names:
            one, other = found[name].to_numpy(zero_copy_only=False), without[name].to_numpy(zero_copy_only=False)
            if one.dtype.kind == "f":
                assert np.array_equal(one.view(np.int64), other.view(np.int64)) or np.array_equal(one, other, equal_nan=True)
            else:
                assert (one == other).all(), name

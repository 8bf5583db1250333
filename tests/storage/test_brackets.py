"""Whether a number in brackets in front of each line is the step: told by how it grows, in whatever pieces the log comes."""

import json

import pytest

from storage.reader import LogReader
from storage.reading import brackets


def steps(numbers: list[int], chunk: int = 1 << 20) -> list[int | None]:
    data = "".join(f"[{number}] loss: {3 - at / 1000:.3f} lr: 0.001\n" for at, number in enumerate(numbers)).encode()
    reader = LogReader("log")
    batches = []
    for at in range(0, len(data), chunk):
        batches += reader.feed(data[at : at + chunk])
        reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    batches += reader.finish()
    return [row["step_printed"] for batch in batches for row in batch.rows.to_pylist()]


@pytest.mark.parametrize("chunk", [13, 997, 1 << 20])
@pytest.mark.parametrize(
    "numbers",
    [list(range(0, 5000, 100)), list(range(1, 60)), [*range(0, 3000, 100), *range(2000, 4000, 100)], [10, 20, 30]],
    ids=["by hundreds", "one by one", "with a restart", "three"],
)
def test_numbers_that_grow_are_steps(numbers: list[int], chunk: int) -> None:
    assert steps(numbers, chunk) == numbers


@pytest.mark.parametrize("chunk", [13, 997, 1 << 20])
@pytest.mark.parametrize(
    "numbers",
    [[at % 4 for at in range(40)], [0] * 40, [0, 8, 16, 24] * 10, [0, 1, 2, 3], [0, 3, 1, 2] * 5],
    ids=["in turn", "one rank", "one of each node", "too few to tell", "in any order"],
)
def test_numbers_that_come_again_are_none(numbers: list[int], chunk: int) -> None:
    assert steps(numbers, chunk) == [None] * len(numbers)


def test_numbers_before_other_words_are_none() -> None:
    assert brackets.told(b"".join(b"[%d] downloading a part\n" % n for n in range(30))) is False

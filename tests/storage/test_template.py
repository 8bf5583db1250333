"""The learnt template: what one line at a time gives, thousands give too, and nothing passes that is not of the shape."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading import plans, template, tokens

CANONICAL = "Epoch:[1/2](3/100), loss: 2.5, logits_loss: 2.25, aux_loss: 0.25, lr: 0.00050000, epoch_time: 45.2min\n"
LINES = {
    "canonical": CANONICAL,
    "padded": " iteration       20/    1000 | iter time (ms): 6707.5 | lm loss: 1.4E+01 | number of nan iterations:   0 |\n",
    "glued units": "step:3/200 train_loss:3.25 train_time:16804ms step_avg:12.5ms\n",
    "blanks": "iter 10: loss 10.25 BPC, time 263.75ms, mfu 9.5%\n",
    "groups": "step 00132 (0.25%) | loss: 5.5 | dt: 4.96ms | tok/sec: 25,816 | epoch: 1\n",
    "clock": "2024/06/05 21:51:32 - Epoch(train) [12][2/6]  lr: 4.0e-03  eta: 2:04:34  loss: 0.5\n",
    "arrow": "[2024-08-15 14:30:21] Step 500/10000 | Loss: 2.356 → 1.874 (Δ-0.482)\n",
    "tabs": "[step 499]\tmlm_loss=8.25\tthroughput=124.0K tks/s\tlr=0.000005 time=108.5\n",
    "wrapped": "step:1 - actor/pg_loss:np.float64(0.5) - response_length/mean:1759.5 - val/acc@5/mean:0.25\n",
    "list": "epoch=1 step=10, lr=[5e-05, 5e-05], loss=2.5\n",
    "spans of time": "step 10 loss 0.75 elapsed 2m 14s eta 1h21m took 1 hour, 5 minutes, 3.5 sec\n",
    "spaces only": "epoch 1 step 11 loss 0.75 preference_accuracy 0.5 lr 2.75e-07\n",
}


def learn(line: str) -> tuple[template.Template, list[tokens.Token]]:
    found = tokens.tokens(line)
    plan = plans.undeclared(line, found)
    assert isinstance(plan, plans.Plan)
    return template.Template(line, found, plan), found


def read_one(learnt: template.Template, line: str) -> dict[str, float] | None:
    """Return what the template reads from a line, None where it does not match."""
    lines = pa.array([line])
    if not learnt.match(lines)[0].as_py():
        return None
    return {name: column[0].as_py() for name, column in learnt.read(lines).items()}


@pytest.mark.parametrize("name", LINES)
def test_a_template_reads_what_one_line_alone_says(name: str) -> None:
    line = LINES[name]
    learnt, found = learn(line)
    got = read_one(learnt, line)
    assert got is not None
    for field in learnt.plan.fields:
        if found[field.token].kind != "stamp":
            value = template.number(found[field.token])
            value = value * field.multiply if field.multiply != 1 else value
            value = value / field.divide if field.divide != 1 else value
            assert got[field.column] == value


def test_a_wrong_name_is_not_read_as_the_right_one() -> None:
    learnt, _ = learn(CANONICAL)
    assert read_one(learnt, CANONICAL.replace(" loss: 2.5", " boss: 2.5")) is None


@pytest.mark.parametrize("cut", range(5, len(CANONICAL) - 1, 7))
def test_a_cut_line_is_not_read(cut: int) -> None:
    learnt, _ = learn(CANONICAL)
    assert read_one(learnt, CANONICAL[:cut] + "\n") is None


def test_interleaved_lines_are_not_read() -> None:
    learnt, _ = learn(CANONICAL)
    assert read_one(learnt, CANONICAL[:40] + CANONICAL) is None


@pytest.mark.parametrize("text", ["nan", "NaN", "NAN", "-nan", "inf", "-inf", "Infinity", "-Infinity", "INF"])
@pytest.mark.parametrize("name", LINES)
def test_nan_and_inf_are_values_after_a_colon_and_survive(name: str, text: str) -> None:
    line = LINES[name]
    learnt, found = learn(line)
    values = [f for f in learnt.plan.fields if found[f.token].kind == "value" and "loss" in f.column]
    for field in values:
        token = found[field.token]
        got = read_one(learnt, line[: token.start] + text + line[token.end :])
        assert got is not None
        wanted = float(text)
        assert got[field.column] == wanted or (math.isnan(wanted) and math.isnan(got[field.column]))


def test_nan_within_words_is_a_word() -> None:
    line = "iteration 3/ 10 | lm loss: 2.5 | number of nan iterations: 0 | info about a banana: 3\n"
    names = [pair.name for pair in tokens.pairs(line, tokens.tokens(line)).pairs]
    assert names == ["iteration", None, "lm loss", "number of nan iterations", "info about a banana"]


def test_a_null_is_never_made_of_nan() -> None:
    learnt, _ = learn("step=1 loss=nan lr=0.5\n")
    got = learnt.read(pa.array(["step=1 loss=nan lr=0.5\n", "step=2 loss=2.5 lr=nan\n"]))
    assert got["loss"].null_count == got["lr"].null_count == 0
    assert math.isnan(got["loss"][0].as_py())


def test_a_line_learnt_from_nan_reads_numbers_too() -> None:
    learnt, _ = learn("Epoch 45 iteration 0020/0187: training loss nan\n")
    got = learnt.read(
        pa.array(["Epoch 45 iteration 0020/0187: training loss nan\n", "Epoch 46 iteration 0040/0187: training loss 0.5\n"])
    )
    assert got["loss"].to_pylist()[1] == 0.5
    assert got["step_printed"].to_pylist() == [20, 40]


def test_padding_may_grow_and_shrink() -> None:
    learnt, _ = learn(LINES["padded"])
    got = read_one(learnt, LINES["padded"].replace("       20/    1000", "  1234567/ 2000000"))
    assert got is not None
    assert got["step_printed"] == 1234567


def test_a_digit_of_a_name_is_no_number() -> None:
    line = "step=1 mtp_1 loss: 2.5 top5_acc=0.5"
    names = {pair.name for pair in tokens.pairs(line, tokens.tokens(line)).pairs}
    assert names == {"step", "mtp_1 loss", "top5_acc"}


@pytest.mark.parametrize("line", ["x: 5e-.3 loss: 2\n", "x: 12:5 loss: 2\n", "x: 12,5 loss: 2\n", "x: 1.2.3 loss: 2\n"])
def test_ambiguous_shapes_are_not_templated(line: str) -> None:
    found = tokens.tokens(line)
    assert not template.Template(line, found, plans.Plan(None, "train", ())).safe


def test_an_impossible_date_is_no_time() -> None:
    got = template.timestamps(pa.array(["2024-02-30 10:00:00", "2024-02-29T10:00:00.25", "2024/02/29 10:00:00,5"]))
    assert [value and value.isoformat() for value in got.to_pylist()] == [
        None,
        "2024-02-29T10:00:00.250000",
        "2024-02-29T10:00:00.500000",
    ]


NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.4f}"),
    st.floats(allow_nan=False).map(lambda x: f"{x:.3E}"),
    st.sampled_from(["nan", "inf", "-inf", "5.", ".5", "007"]),
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_number_reads_back_exactly_in_every_shape(data: st.DataObject) -> None:
    line = LINES[data.draw(st.sampled_from(sorted(LINES)))]
    learnt, found = learn(line)
    wanted, text, last = {}, "", 0
    for index, token in enumerate(found):
        new = token.text
        if token.kind == "value":
            new = data.draw(NUMBERS)
        elif token.kind == "number":
            new = data.draw(NUMBERS.filter(lambda n: n[-1] not in "nf"))
        text += line[last : token.start] + new
        last = token.end
        if token.kind in ("value", "number"):
            wanted[index] = float(new)
    text += line[last:]
    if tokens.shape(text, tokens.tokens(text)) != tokens.shape(line, found):
        return  # a sign glued to a word makes another line
    got = read_one(learnt, text)
    assert got is not None
    for field in learnt.plan.fields:
        if field.token in wanted:
            value = wanted[field.token] * field.multiply / field.divide
            assert got[field.column] == value or (math.isnan(value) and math.isnan(got[field.column]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_a_template_matches_has_its_shape(data: st.DataObject) -> None:
    """The quick way and the slow way must agree: a line that matches means the same to both."""
    line = LINES[data.draw(st.sampled_from(sorted(LINES)))]
    learnt, found = learn(line)
    body = list(line[:-1])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        change = data.draw(st.sampled_from(["insert", "delete", "replace"]))
        char = data.draw(st.sampled_from(list("0123456789.,:eE+-/ nafi()[]|=x→")))
        body[at : at + (change != "insert")] = [] if change == "delete" else [char]
        if not body:
            return
    text = "".join(body) + "\n"
    if learnt.safe and learnt.match(pa.array([text]))[0].as_py():
        assert tokens.shape(text, tokens.tokens(text)) == tokens.shape(line, found)

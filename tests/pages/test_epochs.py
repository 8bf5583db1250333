"""Epochs: several, one, none; fractions; another metric; the sentence and the board."""

import json

from tests.pages.helpers import canonical, take, words


def fractions(epochs: int, rows: int = 20) -> str:
    lines = (
        f'{{"step": {i}, "epoch": {i / rows:.4f}, "loss": {3 - i / 100:.4f}, "grad_norm": 0.5}}\n'
        for i in range(1, epochs * rows + 1)
    )
    return "".join(lines)


def test_epochs_stand_beside_each_other(shop, app):
    run = take(shop, canonical(), "a.log")
    test = app("epochs", run=run)
    assert "Epoch 2 lies" in words(test)
    frame = test.dataframe[0].value
    assert frame["name"].tolist() == ["Epoch 2", "Epoch 1"]
    assert {"mean", "min", "max", "first", "last", "lr_min", "lr_max"} <= set(frame.columns)


def test_fractions_of_an_epoch_are_placed(shop, app):
    run = take(shop, fractions(3), "a.jsonl")
    assert app("epochs", run=run).dataframe[0].value["rows"].tolist() == [20, 20, 20]


def test_one_epoch_says_so_and_is_cut_by_steps(shop, app):
    run = take(shop, fractions(1, 400), "a.jsonl")
    test = app("epochs", run=run)
    assert "one epoch" in words(test)
    assert len(test.dataframe[0].value) > 2


def test_epochs_of_one_row_each_are_points_of_one_line(shop, app):
    lines = (f"epoch: {i} train_loss: {3 * 0.9**i:.4f} val_loss: {3 * 0.91**i:.4f} lr: 0.001\n" for i in range(1, 31))
    run = take(shop, "".join(lines), "a.log")
    for metric, told in ((None, ["Loss", "Evaluation"]), ("lr", ["Learning rate"])):
        (chart,) = app("epochs", run=run, **({"metric": metric} if metric else {})).get("vega_lite_chart")
        spec = json.loads(chart.proto.spec)
        assert {layer["mark"]["type"] for layer in spec["layer"]} == {"line", "point"}
        assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == told
        assert spec["layer"][0]["encoding"]["x"]["title"] == "Epoch"


def test_no_epoch_names_the_field_and_the_line(shop, app):
    run = take(shop, "".join(f"step: {i}, loss: {3 - i / 100:.4f}\n" for i in range(1, 200)), "a.log")
    test = app("epochs", run=run)
    assert "`epoch`" in words(test)
    assert "steps_per_epoch" in test.code[0].value
    assert len(test.dataframe[0].value) > 2


def test_findings_are_counted_in_their_epoch(shop, app):
    run = take(shop, canonical(spike=200), "a.log")
    frame = app("epochs", run=run).dataframe[0].value.set_index("name")
    assert frame.loc["Epoch 2", "findings"] >= 1


def test_another_metric(shop, app):
    run = take(shop, fractions(3), "a.jsonl")
    test = app("epochs", run=run, metric="grad_norm")
    assert test.dataframe[0].value["mean"].tolist() == [0.5, 0.5, 0.5]


def test_each_chart_is_explained_where_that_is_wanted(shop, app):
    run = take(shop, canonical(), "a.log")
    assert "one pass over the data" in words(app("epochs", run=run, explain="1"))
    assert "one pass over the data" not in words(app("epochs", run=run))

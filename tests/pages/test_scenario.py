"""Scenarios: told from the log, changed in the URL, and what they emphasise on Run health."""

from tests.pages.helpers import canonical, take


def preferences(rows: int = 60) -> str:
    lines = (
        f'{{"step": {i}, "loss": {0.69 - i / 500:.4f}, "rewards/margins": {i / 100:.3f}, "rewards/chosen": {i / 200:.3f}}}\n'
        for i in range(1, rows)
    )
    return "".join(lines)


def drawn(test) -> str:
    return test.get("vega_lite_chart")[0].proto.spec


def test_preference_runs_show_their_rewards_at_once(shop, app):
    run = take(shop, preferences(), "a.jsonl")
    assert "rewards/margins" in drawn(app("health", run=run))


def test_a_choice_in_the_url_adds_its_curves(shop, app):
    lines = (f'{{"step": {i}, "loss": {9 - i / 50:.4f}, "grad_norm": 0.5, "memory_gib": 30.5}}\n' for i in range(1, 90))
    run = take(shop, "".join(lines), "a.jsonl")
    assert "memory" not in drawn(app("health", run=run)).lower()
    assert "memory" in drawn(app("health", run=run, scenario="long")).lower()


def test_nonsense_in_the_url_is_ignored(shop, app):
    run = take(shop, canonical(), "a.log")
    assert not app("health", run=run, scenario="<b>").exception
    assert not app("quality", run=run, scenario="none").exception

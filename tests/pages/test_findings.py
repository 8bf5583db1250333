"""Findings: an inbox over all runs with states that stay, and the same states on Run health."""

from tests.pages.helpers import canonical, take, words
from ui import finding_cards, finding_states


def sick(shop, name: str = "jump.log") -> str:
    run = take(shop, canonical(1000, spike=400), name)
    shop.diagnosis(run)
    return run


def key(shop, run: str) -> str:
    return finding_cards.key_of(shop.diagnosis(run).findings[0])


def labels(test) -> list[str]:
    return [one.label for one in test.expander]


def test_what_was_found_in_all_runs_the_gravest_first(shop, app):
    sick(shop)
    run = take(shop, canonical(600, nan=300), "nan.log")
    shop.diagnosis(run)
    found = labels(app("findings"))
    assert "Critical" in found[0]
    assert any("jump" in one for one in found)
    assert any("nan" in one for one in found)


def test_a_finding_is_muted_with_a_reason_and_that_is_undone(shop, app):
    run = sick(shop)
    shown = next(one for one in shop.diagnosis(run).findings)
    where = f"inbox-{run}-{shown.kind}-{shown.severity}-open"
    test = app("findings", {where: True, f"mute-{where}": True})
    assert not test.exception
    assert 'class="rv-log"' in words(test)
    test.button(key=f"do-mute-{where}").click().run()
    assert "Say first why" in test.toast[0].value
    assert shop.store.kept(finding_states.KIND, run) == []
    test.text_input(key=f"reason-{where}").set_value("planned <b>jump</b>")
    test.button(key=f"do-mute-{where}").click().run()
    (kept,) = shop.store.kept(finding_states.KIND, run)
    assert (kept.name, kept.data) == (key(shop, run), {"state": "muted", "reason": "planned <b>jump</b>"})
    assert not any(shown.title.render() in one for one in labels(test))
    test.button(key="undo_states").click().run()
    assert shop.store.kept(finding_states.KIND, run) == []


def test_a_state_shows_on_run_health_too(shop, app):
    run = sick(shop)
    shop.store.keep(finding_states.KIND, key(shop, run), {"state": "acknowledged", "reason": ""}, run=run)
    test = app("health", run=run)
    assert any("*Acknowledged*" in one for one in labels(test))
    assert "Acknowledged ·" in words(test)


def test_a_state_outlives_a_new_diagnosis(shop, app):
    run = sick(shop)
    shop.store.keep(finding_states.KIND, key(shop, run), {"state": "acknowledged", "reason": ""}, run=run)
    shop.store.rename_run(run, "renamed.log")
    shop.diagnosis(run)
    assert any("*Acknowledged*" in one and "renamed" in one for one in labels(app("findings", {"state_picker": "all"})))


def test_filters_keep_what_they_say(shop, app):
    run = sick(shop)
    assert all("Critical" in one for one in labels(app("findings", {"severity_picker": "critical"})))
    assert "Nothing here" in words(app("findings", {"state_picker": "muted"}))
    assert len(labels(app("findings", run=run))) == len(labels(app("findings")))
    assert "Nothing was found" in words(app("findings", run="none"))


def test_many_findings_of_a_class_are_one_card(shop, app):
    text = "".join(canonical(40).replace("Epoch:[1/2](10", "Epoch:[1/2](10") for _launch in range(8))
    run = take(shop, text, "restarts.log")
    groups = finding_cards.grouped(run, shop.diagnosis(run).findings, {})
    kinds = [(group.first.kind, group.first.severity) for group in groups]
    assert len(kinds) == len(set(kinds))
    assert max(len(group.findings) for group in groups) > 1
    test = app("health", run=run)
    assert any("×" in one for one in labels(test))


def test_limits_name_scope_conditions_and_what_lies_beyond_the_log(shop, app):
    text = f"Namespace(lr=5e-4, batch_size=16, seed=7)\n{canonical(1000, spike=400)}"
    run = take(shop, text, "set.log")
    shown = shop.diagnosis(run).findings[0]
    where = f"{run}-{shown.kind}-{shown.severity}-open"
    said = words(app("health", {f"limits-{where}": True}, run=run, finding=finding_cards.key_of(shown)))
    for part in ("Holds for", "batch_size 16", "seed 7", "A log is one witness", "could be told at step"):
        assert part in said


def test_hostile_names_are_text(shop, app):
    run = take(shop, canonical(1000, spike=400), '**bold** :red[x] $a$ <script>alert(1)</script> 🚀 "q".log')
    shop.diagnosis(run)
    (first, *_rest) = labels(app("findings"))
    assert "\\*\\*bold\\*\\*" in first
    assert "\\<script\\>" in first
    for page in ("overview", "health", "wall"):
        test = app(page, run=run)
        assert not test.exception
        assert "<script>alert" not in words(test)


def test_a_store_that_is_read_only_offers_no_change(shop, app):
    from dataclasses import replace

    run = sick(shop)
    shop.settings = replace(shop.settings, read_only=True)
    shown = shop.diagnosis(run).findings[0]
    test = app("findings", {f"inbox-{run}-{shown.kind}-{shown.severity}-open": True})
    assert not test.exception
    assert not any(button.label == "Acknowledge" for button in test.button)

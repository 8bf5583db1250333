"""Log quality: the grade and its reasons, what to print for which framework, the form of the lines, what was read."""

from tests.pages.helpers import canonical, take, words


def test_a_grade_with_classes_dimensions_and_things_to_watch(shop, app):
    said = words(app("quality", run=take(shop, canonical(), "a.log")))
    for part in ("Grade", "Layered losses", "Plausibility", "Attributability", "Overhead", "Gradients"):
        assert part in said


def test_the_line_to_paste_is_that_of_the_framework(shop, app):
    run = take(shop, canonical(), "a.log")
    assert "Epoch:[{epoch + 1}" in app("quality", run=run).code[0].value
    assert "TrainerCallback" in app("quality", run=run, framework="trainer").code[0].value


def test_what_is_missing_leads_to_the_rule_that_needs_it(shop, app):
    said = words(app("quality", run=take(shop, canonical(), "a.log")))
    assert "handbook?rule=memory_leak" in said


def test_lines_that_were_not_understood_are_shown_with_their_number(shop, app):
    text = canonical(60).splitlines()
    text[30] = text[30][:35]
    test = app("quality", run=take(shop, "\n".join(text) + "\n", "a.log"))
    shown = [frame.value for frame in test.dataframe if "reason" in frame.value.columns]
    assert shown
    assert shown[0]["line"].iloc[0] == 31


def test_what_the_log_weighs(shop, app):
    said = words(app("quality", run=take(shop, canonical(), "a.log")))
    assert "Bytes a step" in said
    assert "for the whole plan" in said


def test_a_log_without_steps_is_not_graded(shop, app):
    run = take(shop, "starting\nTraceback (most recent call last):\nValueError: bad\n" * 3, "a.log")
    said = words(app("quality", run=run))
    assert "Not graded" in said


def test_the_scenario_marks_what_matters(shop, app):
    run = take(shop, canonical(), "a.log")
    assert "matters here" in words(app("quality", run=run, scenario="cost"))
    assert "what logging itself costs" in words(app("quality", run=run, scenario="cost"))


def test_a_container_is_called_by_its_title(shop, app):
    text = "".join(f"{{'loss': {3 - i / 100:.3f}, 'learning_rate': 1e-05, 'epoch': {i / 50:.2f}}}\n" for i in range(1, 60))
    said = words(app("quality", run=take(shop, text, "a.log")))
    assert "Hugging Face Trainer" in said
    assert "hf_dict" not in said

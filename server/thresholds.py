"""Thresholds of one's own: what a project sets for the rules' keyword arguments in place of their defaults.

A project is what the configuration of a run calls so, else the folder of its log (server/board.py); a run of neither
belongs to the project with the empty name. One document a project: {profile: {rule: {argument: value}}}.
"""

from collections.abc import Mapping
from typing import Any

from analysis.diagnose import PROFILES
from analysis.registry import Rule, all_rules
from messages import N_, Text
from server.board import flat, project
from storage.store import Store

KIND = "thresholds"
SHORT = {"spike.z": "spike.two_of_four"}  # how the catalogue of rules calls it

Thresholds = dict[str, dict[str, Any]]


class BadThreshold(ValueError):
    """A threshold that can't be set; `message` says why."""

    def __init__(self, message: Text) -> None:
        super().__init__(message.render())
        self.message = message


def project_of(store: Store, run: str) -> str:
    """Return the project of a run, empty without one. Raises UnknownRun."""
    return project(store.run(run), flat(store.report(run).config))


def of_project(store: Store, name: str, profile: str) -> Thresholds:
    """Return what a project has set for a profile; what the rules no longer know is left out."""
    kept: dict[str, Thresholds] = next((each.data for each in store.kept(KIND, run="") if each.name == name), {})
    rules = {rule.name: rule.thresholds_by(profile) for rule in all_rules()}
    found = {rule: {k: v for k, v in own.items() if k in rules.get(rule, {})} for rule, own in kept.get(profile, {}).items()}
    return {rule: own for rule, own in found.items() if own}


def of_run(store: Store, run: str, profile: str) -> Thresholds:
    """Return what the project of a run has set. Raises UnknownRun."""
    return of_project(store, project_of(store, run), profile) if store.kept(KIND, run="") else {}


def save(store: Store, name: str, profile: str, values: Mapping[str, Mapping[str, Any]], *, who: str = "") -> None:
    """Keep the thresholds of a project for a profile; those that are the defaults are not kept. Raises BadThreshold."""
    kept: dict[str, Thresholds] = next((dict(each.data) for each in store.kept(KIND, run="") if each.name == name), {})
    own: Thresholds = {}
    for rule, given in values.items():
        checked = {k: value_of(rule, k, v, profile) for k, v in given.items()}
        usual = _rule(rule).thresholds_by(profile)
        own[rule] = {k: v for k, v in checked.items() if v != usual[k]}
    kept[profile] = {rule: given for rule, given in own.items() if given}
    if any(kept.values()):
        store.keep(KIND, name, kept, who=who)
    else:
        store.drop(KIND, name)


def parse(texts: tuple[str, ...], profile: str) -> Thresholds:
    """Read `rule.argument=value` texts. Raises BadThreshold."""
    found: Thresholds = {}
    for text in texts:
        name, _, value = text.partition("=")
        rule, _, argument = SHORT.get(name.strip(), name.strip()).partition(".")
        found.setdefault(rule, {})[argument] = value_of(rule, argument, value.strip(), profile)
    return found


def value_of(rule: str, argument: str, value: Any, profile: str) -> Any:
    """Return a value for an argument of a rule, of the type of its default. Raises BadThreshold."""
    known = _rule(rule).thresholds_by(profile) if profile in PROFILES else {}
    if argument not in known:
        message = N_("The rule {rule} has no threshold {argument}; it has: {known}")
        raise BadThreshold(Text(message, {"rule": rule, "argument": argument or "?", "known": ", ".join(known) or "none"}))
    try:
        number = type(known[argument])(value)
        if not number >= 0 and known[argument] >= 0:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        message = N_("{rule}.{argument} can't be {value}: it must be a number, not below zero.")
        raise BadThreshold(Text(message, {"rule": rule, "argument": argument, "value": str(value)})) from error
    return number


def _rule(name: str) -> Rule:
    found = next((rule for rule in all_rules() if rule.name == name), None)
    if found is None:
        known = ", ".join(rule.name for rule in all_rules())
        raise BadThreshold(Text(N_("There is no rule {rule}; there are: {known}"), {"rule": name or "?", "known": known}))
    return found

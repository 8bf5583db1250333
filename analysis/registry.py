"""Finds the rules: every module in `analysis/rules/` is one, and there is no list beside the folder.

How a rule sees a run, finished or still growing
------------------------------------------------
A rule may use, at a row, only that row and those before it; findings carry `known_step`, the step at which they could
first be said. So a rule called on a prefix says exactly what is known then, and `tests/analysis/test_rules.py` proves it:
a finding of the finished run is found in the prefix that ends at its `known_step` and not one row earlier.

A rule reads a metric through two views only, and both stay small while a run grows:

* row by row with a bounded look-back: `noise.track` (at most `noise.LOOKBACK` rows), and the spike episodes made of it;
* the whole past through `ladder.ladder`: at most 256 block means, whose size doubles as the run doubles.

A stream therefore needs to carry, per segment, the last `LOOKBACK` rows, the block sums and the episodes and findings
so far: nothing that grows with the run. This version recomputes them from the stored rows of the segment.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from analysis import rules as folder
from analysis.findings import Finding
from analysis.segment import Segment
from messages import Text

PARTS = ("Meaning", "Causes", "What to do", "Source")


@dataclass(frozen=True)
class Rule:
    """One file of `analysis/rules/`.

    name: the file's name, which is the class that its findings bear.
    title, meaning, causes, advice, source: the parts of its docstring, English gettext messages, shown to the user.
    needs: columns without which it cannot be applied; `a|b` means either.
    rows: rows with a loss (or a rate) below which it can say little; 0 where any row will do.
    level: whether it judges the level of the loss, which a loss around zero or of reinforcement learning does not have.
    thresholds: the keyword-only arguments of `check` with their defaults: what a page may edit.
    check: (segment, **thresholds) -> findings; sick, well: segments that must be found and must stay quiet.
    informs: it only ever informs, nothing that it finds is an alarm.
    articles: the same with the fixed thresholds of the source articles (`check_articles` of the module), None without any.
    text: it reads what the text says (events): it applies to a launch without rows, too.
    partly: what it can't judge in a segment although `needs` are met: the columns it misses and why, None if nothing.
    """

    name: str
    title: str
    meaning: str
    causes: str
    advice: str
    source: str
    needs: tuple[str, ...]
    rows: int
    level: bool
    thresholds: dict[str, Any]
    check: Callable[..., Iterator[Finding]]
    sick: Callable[[], Segment]
    well: Callable[[], Segment]
    informs: bool = False
    articles: Callable[..., Iterator[Finding]] | None = None
    text: bool = False
    partly: Callable[[Segment], tuple[tuple[str, ...], Text] | None] | None = None

    def by(self, profile: str) -> Callable[..., Iterator[Finding]]:
        """Return the check of a profile: `articles` has its own where an article gives a threshold."""
        return self.articles if profile == "articles" and self.articles else self.check

    def thresholds_by(self, profile: str) -> dict[str, Any]:
        """Return what may be edited of the check of a profile, with the defaults."""
        return thresholds_of(self.by(profile))

    def threshold_words(self, profile: str) -> tuple[str, ...]:
        """Return what the thresholds of a profile mean: the paragraphs of the check's docstring after its first, which says it
        where there is no other."""
        paragraphs = re.split(r"\n\s*\n", inspect.getdoc(self.by(profile)) or "")
        words = [" ".join(part.split()) for part in paragraphs if part.strip()]
        alone = words[:1] if self.thresholds_by(profile) else []
        return tuple(words[1:] or [word.replace("Yield ", "It finds ", 1) for word in alone])

    def missing(self, segment: Segment) -> tuple[str, ...]:
        """Return the columns of `needs` that the segment does not have; a `a|b` need is met by either."""
        return tuple(need for need in self.needs if not any(segment.logs(name) for name in need.split("|")))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the folder, by name."""
    names = sorted(item.name for item in pkgutil.iter_modules(folder.__path__) if not item.name.startswith("_"))
    return tuple(read_rule(import_module(f"{folder.__name__}.{name}")) for name in names)


def read_rule(module: ModuleType) -> Rule:
    """Return the rule that a module defines; ValueError says which part of its docstring is missing."""
    name = module.__name__.rpartition(".")[2]
    title, parts = split_docstring(module.__doc__ or "")
    missing = [part for part in PARTS if not parts.get(part)]
    if missing:
        raise ValueError(f"the docstring of rule {name} lacks: {', '.join(missing)}")
    meaning, causes, advice, source = (parts[part] for part in PARTS)
    needs, rows, level = tuple(module.NEEDS), int(getattr(module, "ROWS", 0)), bool(getattr(module, "LEVEL", False))
    proof = (module.check, module.sick, module.well)
    informs, articles = bool(getattr(module, "INFORMS", False)), getattr(module, "check_articles", None)
    text, partly = bool(getattr(module, "TEXT", False)), getattr(module, "partly", None)
    words = (name, title, meaning, causes, advice, source)
    return Rule(*words, needs, rows, level, thresholds_of(module.check), *proof, informs, articles, text, partly)


def thresholds_of(check: Callable[..., Iterator[Finding]]) -> dict[str, Any]:
    """Return the keyword-only arguments of a check with their defaults."""
    arguments = inspect.signature(check).parameters.values()
    return {item.name: item.default for item in arguments if item.kind is item.KEYWORD_ONLY}


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a rule's docstring into its title and its named paragraphs (`Meaning: …`), line breaks undone."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if part.strip()]
    named = (re.match(r"([A-Z][a-z ]+): (.*)", part) for part in paragraphs[1:])
    return (paragraphs or [""])[0].rstrip("."), {match[1]: match[2] for match in named if match}

"""Causes of what the rules about the lines of a log find: fields that vanish, forms that change."""

from analysis.attribution import Clue
from analysis.clues import resumed
from messages import N_

MISSING, CHANGED = ("field_missing",), ("format_change",)

CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "logging_options": (
        N_("The script or its logging options changed"),
        (N_("Compare the command line before and after, and print the same fields throughout."),),
    ),
    "another_writer": (
        N_("Another program or process writes into the same file"),
        (N_("Give every program its own file, and let only the first process log."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "field_missing": (N_("Print the field again; until then the rules named here see nothing."),),
    "format_change": (N_("Compare the two lines named here, and check that the fields were matched as you mean them."),),
}

CLUES: tuple[Clue, ...] = (Clue(MISSING + CHANGED, "logging_options", 3, (), resumed, against=False),)

USUAL: dict[str, tuple[str, ...]] = {
    "field_missing": ("logging_options", "another_writer"),
    "format_change": ("logging_options", "another_writer"),
}

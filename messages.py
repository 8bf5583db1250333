"""Text for people that the code below the interface writes and the interface translates.

A leaf module that anybody may import. Analysis and storage know no language: they keep the English template (the
gettext message id) beside the values, and whoever shows the text translates the template first and fills it afterwards.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERBATIM = "{words}"  # no message of its own


def N_(template: str) -> str:
    """Mark a string for extraction into the gettext catalogue without translating it here."""
    return template


@dataclass(frozen=True)
class Text:
    """A sentence as a gettext message id with named gaps, and the values for the gaps.

    Values are numbers, strings or other texts (a word that is translated itself, as the name of a condition); strings may
    come from a log and are hostile: the interface escapes them.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def render(self, translate: Callable[[str], str] = str) -> str:
        """Return the sentence, its template passed through `translate` first (default: English as written)."""
        template = translate(self.template)
        values = {name: value.render(translate) if isinstance(value, Text) else value for name, value in self.values.items()}
        return template.format(**values) if values else template

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form: template, values and the English sentence."""
        values = {name: value.to_dict() if isinstance(value, Text) else value for name, value in self.values.items()}
        return {"template": self.template, "values": values, "text": self.render()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Text":
        """Read back what `to_dict` wrote."""
        values = {name: cls.from_dict(value) if _is_text(value) else value for name, value in data.get("values", {}).items()}
        return cls(data["template"], values)


def verbatim(words: str) -> Text:
    """Return words that are no message: what a log prints, the name of a run, a sentence that is said already."""
    return Text(VERBATIM, {"words": words})


def listed(names: Iterable[Text]) -> Text:
    """Return several names as one list."""
    gaps = {f"name{place}": name for place, name in enumerate(names)}
    template = ", ".join(f"{{{gap}}}" for gap in gaps)  # no message of its own: the names are
    return Text(template, gaps)


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"template", "values", "text"}

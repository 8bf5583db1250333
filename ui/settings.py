"""What this installation is set to: each value with where it comes from, how full the disk is, what the store has noted."""

import tomllib
from collections.abc import Sequence
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from messages import N_
from server.care import DiskStatus
from server.settings import Settings
from storage.keeping.mirror import MirrorStatus
from storage.keeping.recovery import Note
from ui.html import bar, escape, grid, tag
from ui.text import _, ago, moment, ngettext, number, say, size_words

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
JUDGING = {"profile": N_("Thresholds of a new visitor"), "diagnose_seconds": N_("A growing run is judged again every")}
KEEPING = {
    "keep_lines_days": N_("Original lines are kept for"),
    "keep_rows_days": N_("Raw rows are kept for"),
    "keep_aggregates_days": N_("Aggregates are kept for"),
    "keep_around": N_("Around each finding stay, lines and rows on both sides"),
    "hot_days": N_("Runs at rest move to Parquet files after"),
    "disk_budget_gib": N_("The store may take"),
    "object_store": N_("A copy goes to"),
}
SERVING = {
    "data_dir": N_("Data directory"),
    "max_upload_mib": N_("Largest upload in the browser"),
    "read_only": N_("Only reading"),
    "watch": N_("Watched folders from the settings"),
    "watch_seconds": N_("Watched folders are looked at every"),
    "tokens": N_("Tokens for programs"),
    "public_url": N_("Links in alerts begin with"),
}
PARTS = {
    "warehouse": N_("Database"),
    "archive": N_("Original lines"),
    "parquet": N_("Parquet files"),
    "other": N_("Everything else"),
}


def version() -> str:
    """Return the version of the program."""
    if PROJECT.exists():
        return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    return installed("runvitals")


def table(settings: Settings, names: dict[str, str], origins: dict[str, str]) -> str:
    """Return settings as a table: what, its value, where it is set."""
    rows = []
    for name, words in names.items():
        origin = origins.get(name, "")
        where = _("set by {origin}").format(origin=origin) if origin else _("as delivered")
        cells = tag("th", escape(_(words)), scope="row", title=name)
        cells += tag("td", escape(value(name, getattr(settings, name))), "rv-number") + tag("td", escape(where))
        rows.append(tag("tr", cells))
    return grid("".join(rows), "rv-settings")


def value(name: str, found: Any) -> str:
    """Return a setting in words; a token is never shown."""
    if name == "tokens":
        return number(len(found))
    if isinstance(found, bool):
        return _("yes") if found else _("no")
    if name == "profile":
        return {"robust": _("robust: the run's own noise"), "articles": _("fixed numbers of the articles")}.get(
            found, str(found)
        )
    if name.endswith("_days"):
        return ngettext("{n} day", "{n} days", found) if found else _("for ever") if name != "hot_days" else _("never")
    if name.endswith("_seconds"):
        return _("{n} s").format(n=number(found))
    if name.endswith("_gib"):
        return f"{number(found)} GiB" if found else _("as much as there is")
    if name.endswith("_mib"):
        return f"{number(found)} MiB"
    if isinstance(found, tuple):
        return ", ".join(map(str, found)) or "–"
    return number(found) if isinstance(found, int | float) else str(found) or "–"


def disk(status: DiskStatus) -> str:
    """Return how full the store is: the sentence, a bar, and what takes the room."""
    limit = status.budget or status.used + status.free
    css = {"ok": "rv-quiet", "warning": "rv-warning", "full": "rv-warning"}[status.state]
    rows = "".join(
        tag("tr", tag("th", escape(_(PARTS.get(name, name))), scope="row") + tag("td", escape(size_words(size)), "rv-number"))
        for name, size in sorted(status.parts.items(), key=lambda pair: -pair[1])
    )
    return (
        tag("p", escape(say(status.message)), css)
        + bar(status.used / max(limit, 1))
        + tag("table", rows, "rv-table rv-settings")
    )


def mirror(status: MirrorStatus | None) -> str:
    """Return how far the copy in the object store is."""
    if status is None:
        return tag("p", escape(_("No copy is made outside of this machine (object_store).")), "rv-quiet")
    sent = ago(status.last_sent) if status.last_sent else "–"
    words = _("{place}: files there: {sent}, waiting: {waiting} ({size}); last sent {when}.").format(
        place=status.place,
        sent=number(status.sent),
        waiting=number(status.waiting),
        size=size_words(status.waiting_bytes),
        when=sent,
    )
    problem = tag("p", escape(say(status.problem)), "rv-warning") if status.problem else ""
    return tag("p", escape(words), "rv-quiet") + problem


def notes(found: Sequence[Note]) -> str:
    """Return what the store has noted of itself, the newest first."""
    if not found:
        return tag("p", escape(_("Nothing: the store was whole each time it was opened.")), "rv-quiet")
    rows = [tag("li", tag("b", escape(moment(note.made))) + " — " + escape(say(note.message))) for note in reversed(found)]
    return tag("ul", "".join(rows), "rv-unknown")

"""What the page of watched folders shows: which files a folder would give, how each folder is, which files are followed."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import stat
from pathlib import PurePath

import pandas as pd

from messages import Text
from server import service
from storage.intake.places import FILES, LANES, Places, RuleError
from storage.intake.scan import Problem, scan
from storage.intake.watch import FolderStatus
from storage.keeping.sources import Source, Watched
from ui import html, state
from ui.text import _, ago, as_utc, ngettext, number, percent, say, size_words

PREVIEW_SECONDS = 1.0  # given to looking into a folder; what was seen until then is shown
SHOWN = 200  # files of a preview or of a folder, those changed last
LIVELY_SECONDS = 60


@dataclass(frozen=True)
class Preview:
    """What watching a folder would give: `files` in the order of their age (path below the folder, run, rank, node, bytes,
    ns of change), how many match and how many lie beside them, how many runs; `whole`: everything was looked at."""

    files: list[tuple[str, str, int | None, str | None, int, int]] = field(default_factory=list)
    logs: int = 0
    others: int = 0
    runs: int = 0
    whole: bool = True
    problems: tuple[Text, ...] = ()


@state.st.cache_data(max_entries=32, ttl=5, show_spinner=False)
def preview(watched: Watched) -> Preview:
    """Look into a folder (for a second at most) and return what its settings make of the files there."""
    try:
        places = Places(watched)
    except RuleError as error:
        return Preview(problems=(error.message,))
    end, own = time.monotonic() + PREVIEW_SECONDS, str(state.store().data_dir.resolve())
    left: list[str] = []

    def skipped(path: str) -> bool:
        late = time.monotonic() > end
        left.extend([path] * late)
        return late or path == own or places.excluded(path)

    found = scan(watched.folder, skipped)
    logs = [(path, place, found.files[path]) for path in found.files if (place := places.of(path))]
    logs.sort(key=lambda log: -log[2][1])
    files = [
        (path[len(watched.folder) :].strip("/"), place.name, place.rank, place.host, entry[0], entry[1])
        for path, place, entry in logs[:SHOWN]
    ]
    runs = len({place.claim for _path, place, _entry in logs})
    problems = tuple(problem.message for problem in found.problems)
    return Preview(files, len(logs), len(found.files) - len(logs), runs, not left, problems)


def told(seen: Preview) -> str:
    """Return what a preview found, in one sentence."""
    if seen.whole and not (seen.logs or seen.others):
        return _("The folder holds no file yet: what is written there later is looked at then.")
    files = ngettext("{n} file", "{n} files", seen.logs)
    runs = ngettext("{n} run", "{n} runs", seen.runs)
    others = ngettext("{n} other file is left alone.", "{n} other files are left alone.", seen.others)
    sentence = _("{files} would be {runs}.").format(files=files, runs=runs) if seen.logs else _("No file matches.")
    late = "" if seen.whole else _("There is more: not everything could be looked at in a second.")
    return " ".join(part for part in (sentence, others if seen.others else "", late) if part)


def preview_table(seen: Preview) -> pd.DataFrame:
    """Return the files of a preview as a table, those changed last first."""
    rows = [
        {
            _("File"): path,
            _("Run"): run,
            _("Rank"): rank,
            _("Node"): host,
            _("Size"): size_words(size),
            _("Changed"): ago(datetime.fromtimestamp(changed / 1e9, UTC)),
        }
        for path, run, rank, host, size, changed in seen.files
    ]
    table = pd.DataFrame(rows)
    return table.dropna(axis="columns", how="all") if len(table) else table


def rule_words() -> dict[str, str]:
    """Return the rules that have a name, in words; `own` stands for a pattern."""
    return {
        "": _("Each file is a run; files of ranks and nodes are joined"),
        FILES: _("Each file is a run, whatever its name"),
        LANES: _("All files of a folder are one run"),
        "own": _("A pattern of my own"),
    }


def statuses() -> dict[str, FolderStatus]:
    """Return how each watched folder was when it was last looked at, by path."""
    watcher = service.get().watcher
    return {status.watched.folder: status for status in (watcher.status if watcher else ())}


def look() -> None:
    """Let the watcher look at once: something was set."""
    watcher = service.get().watcher
    if watcher:
        watcher.look()


def agent_line() -> str:
    """Return the command that sends a growing log from another machine to this server."""
    root = re.match(r"https?://[^/]+", state.st.context.url or "")
    address = root[0] if root else "http://SERVER:8501"
    # offset=0: what it sends again when it is started again is compared, and not stored twice.
    return f"tail -n +1 -F train.log | curl -sST - '{address}/api/v1/ingest/train.log?offset=0'"


def listed() -> list[tuple[Watched, FolderStatus | None]]:
    """Return every folder that is or was watched: those set here and those of the environment."""
    found = statuses()
    kept = {watched.folder: watched for watched in state.store().watched()}
    kept |= {folder: status.watched for folder, status in found.items() if status.fixed}
    return [(watched, found.get(folder)) for folder, watched in sorted(kept.items())]


def card(watched: Watched, status: FolderStatus | None) -> str:
    """Return how a folder is, in HTML: sign and word, path, figures, how it is read."""
    css, sign, word = _look(watched, status)
    badge = html.tag("span", html.icon(sign) + html.escape(word), "rv-badge")
    name = html.tag("span", html.escape(watched.folder), "rv-sentence")
    lines = [_figures(status)] if status else []
    lines.append(settings_words(watched))
    body = "".join(html.tag("p", html.escape(line), "rv-quiet") for line in lines if line)
    return html.tag("div", html.tag("p", badge + name, "rv-line") + body, f"rv-outcome {css}")


def _look(watched: Watched, status: FolderStatus | None) -> tuple[str, str, str]:
    if watched.paused:
        return "rv-none", "pause_circle", _("Paused")
    if status is None:
        return "rv-none", "hourglass_empty", _("Not looked at yet")
    if any(problem.code in ("missing", "bad_rule", "not_stored") or _whole(problem, watched) for problem in status.problems):
        return "rv-bad", "error", _("Not read")
    if status.problems:
        return "rv-warn", "warning", _("Watched, with gaps")
    return "rv-good", "check_circle", _("Watched")


def _whole(problem: Problem, watched: Watched) -> bool:
    return problem.code == "unreadable" and problem.path == watched.folder


def _figures(status: FolderStatus) -> str:
    parts = [ngettext("{n} log", "{n} logs", status.logs)]
    if status.growing:
        parts.append(ngettext("{n} grew in the last minute", "{n} grew in the last minute", status.growing))
    if status.silent:
        parts.append(ngettext("{n} without anything to show yet", "{n} without anything to show yet", status.silent))
    behind = size_words(status.behind_bytes)
    parts.append(_("{size} still to be read").format(size=behind) if status.behind_bytes else _("all read"))
    parts.append(_("looked at {ago}").format(ago=ago(status.polled)))
    return " · ".join(parts)


def settings_words(watched: Watched) -> str:
    """Return how a folder is read, in words."""
    named = rule_words()
    parts = [named.get(watched.rule) or _("Pattern: {pattern}").format(pattern=watched.rule)]
    if watched.include:
        parts.append(_("only {globs}").format(globs=" ".join(watched.include)))
    if watched.exclude:
        parts.append(_("without {globs}").format(globs=" ".join(watched.exclude)))
    return " · ".join(parts)


def problems(status: FolderStatus) -> list[str]:
    """Return what is wrong with a folder, each in a sentence, none twice."""
    return list(dict.fromkeys(say(problem.message) for problem in status.problems))


def followed(folders: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return the files that feed runs, by folder: id and name of the run, file, rank, node, age of the rows, what was read."""
    runs = {run.id: run for run in state.store().runs()}
    latest: dict[str, Source] = {source.run: source for source in state.store().sources()}  # the last generation wins
    under: dict[str, list[dict]] = {folder: [] for folder in folders}
    for source in latest.values():
        run = runs.get(source.job or source.run)
        home = max((folder for folder in under if PurePath(source.path).is_relative_to(folder)), key=len, default=None)
        if run is None or home is None:
            continue
        under[home].append(_row(source, home, run.id, run.name, as_utc(run.updated)))
    return {folder: _table(rows) for folder, rows in under.items()}


def _row(source: Source, home: str, run_id: str, run_name: str, updated: datetime) -> dict:
    try:
        size = stat(source.path).st_size
    except OSError:
        size = None
    share = 1.0 if not size else min(1.0, source.offset / size)
    return {
        "id": run_id,
        "run": run_name,
        "file": str(PurePath(source.path).relative_to(home)),
        "rank": source.rank,
        "node": source.host,
        "age": ago(updated),
        "read": _("gone") if size is None else f"{number(source.offset)} ({percent(share)})",
        "_updated": updated,
    }


def _table(rows: list[dict]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["id", "run", "file", "rank", "node", "age", "read", "_updated"])
    table = table.sort_values("_updated", ascending=False).drop(columns="_updated").head(SHOWN)
    return table.drop(columns=[name for name in ("rank", "node") if table[name].isna().all()])

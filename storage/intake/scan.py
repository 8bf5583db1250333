"""What lies in a folder at this moment: every file below it with size, time of change and identity."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from messages import N_, Text

# Size in bytes, time of change in ns, device, inode: a plain tuple, for there are 10,000 of them every second.
Entry = tuple[int, int, int, int]
MAX_DEPTH = 32


@dataclass(frozen=True)
class Problem:
    """Something about a watched folder that a person should know; `code` is one word for scripts."""

    code: str
    path: str
    message: Text


@dataclass
class Scan:
    """Files by path, first the `real` ones, then those to which links lead; paths that are neither file nor folder; what
    could not be looked into."""

    files: dict[str, Entry] = field(default_factory=dict)
    real: int = 0
    others: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def scan(folder: str, excluded: Callable[[str], bool]) -> Scan:
    """Return what lies in `folder` and below, following links but into no folder twice; `excluded` folders are left out."""
    found = Scan()
    seen: dict[tuple[int, int], str] = {}
    links: list[tuple[str, int]] = []
    # Links after what really lies there: of two ways to one folder the real one counts.
    folders = [(folder, 0)]
    followed = False
    while folders or links:
        if not folders and not followed:
            found.real, followed = len(found.files), True
        path, depth = folders.pop() if folders else links.pop()
        try:
            status = os.stat(path)
            if not stat.S_ISDIR(status.st_mode):
                _file(found, path, status)
                continue
            if _again(found, seen, path, status, depth):
                continue
            _folder(found, path, depth, status.st_dev, folders, links, excluded)
        except OSError as error:
            found.problems.append(unreadable(path, error, top=path == folder))
    found.real = found.real if followed else len(found.files)
    return found


def _folder(
    found: Scan,
    path: str,
    depth: int,
    device: int,
    folders: list[tuple[str, int]],
    links: list[tuple[str, int]],
    excluded: Callable[[str], bool],
) -> None:
    files = found.files
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append((entry.path, depth + 1))
            elif entry.is_dir():
                if not excluded(entry.path):
                    folders.append((entry.path, depth + 1))
            elif entry.is_file():
                try:
                    status = entry.stat()
                except OSError:  # gone since
                    continue
                files[entry.path] = (status.st_size, status.st_mtime_ns, device, status.st_ino)
            else:
                found.others.add(entry.path)


def _file(found: Scan, path: str, status: os.stat_result) -> None:
    """Note what a link leads to."""
    entry = (status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)
    if stat.S_ISREG(status.st_mode):
        found.files[path] = entry
    else:
        found.others.add(path)


def _again(found: Scan, seen: dict[tuple[int, int], str], path: str, status: os.stat_result, depth: int) -> bool:
    identity = (status.st_dev, status.st_ino)
    if identity in seen:
        if path.startswith(seen[identity] + "/"):
            message = N_("{path} leads back to {folder}, in which it lies; it is not entered again.")
            found.problems.append(Problem("loop", path, Text(message, {"path": path, "folder": seen[identity]})))
        return True
    seen[identity] = path
    if depth > MAX_DEPTH:
        message = N_("{path} lies more than {depth} folders deep; it is not looked into.")
        found.problems.append(Problem("too_deep", path, Text(message, {"path": path, "depth": MAX_DEPTH})))
        return True
    return False


def unreadable(path: str, error: OSError, *, top: bool = False) -> Problem:
    """Return the problem that a folder or file can't be read."""
    if isinstance(error, PermissionError):
        message = N_("{path} may not be read by the user that runs Runvitals. Allow it: chmod, chown or setfacl.")
        return Problem("unreadable", path, Text(message, {"path": path}))
    if isinstance(error, FileNotFoundError) and not top:
        return Problem("broken_link", path, Text(N_("{path} is a link that leads nowhere."), {"path": path}))
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        message = N_("The folder {path} is not there. It is looked for again and again; its runs stay.")
        return Problem("missing", path, Text(message, {"path": path}))
    gaps = {"path": path, "error": os.strerror(error.errno or 0)}
    return Problem("unreadable", path, Text(N_("{path} can't be read: {error}"), gaps))

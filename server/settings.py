"""Settings: one dataclass, read from a TOML file and from the environment; the environment wins."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

PREFIX = "RUNVITALS_"


class SettingsError(ValueError):
    """A setting is unknown or has a value that can't be used; the message names it and where it came from."""


@dataclass(frozen=True)
class Settings:
    """Everything that can be configured. `RUNVITALS_DATA_DIR=/srv/rv` sets `data_dir`, and so on for each field."""

    # Where the store, the raw archive and the spool live. Made on first use.
    data_dir: Path = Path("data")
    # Largest upload in the browser in MiB; more comes by `cli.py ingest` (the browser upload passes through memory).
    max_upload_mib: int = 2048
    # Which thresholds a new visitor sees: `robust` (in the run's own noise) or `articles` (fixed numbers).
    profile: str = "robust"
    # Open the store without writing: uploads and diagnosis are off, pages still read.
    read_only: bool = False
    # Folders that are watched besides those set on the page: `RUNVITALS_WATCH=/srv/a:/srv/b`, a list in the file.
    watch: tuple[Path, ...] = ()
    # Seconds between two looks at the watched folders.
    watch_seconds: float = 1.0
    # A run that gets rows is diagnosed again at most that often.
    diagnose_seconds: float = 5.0
    # Who has one of these may send logs (and read) from other machines: `RUNVITALS_TOKENS=one,two`, a list in the file.
    tokens: tuple[str, ...] = ()
    # The address under which people reach the pages (`https://runs.example.org`): what links in alerts begin with.
    public_url: str = ""
    # Days after which original lines, raw rows and aggregates go; 0: never. Runs with a hold keep everything, and around
    # each finding `keep_around` lines and rows stay on both sides. Aggregates only go where the raw rows have gone.
    keep_lines_days: float = 7
    keep_rows_days: float = 0
    keep_aggregates_days: float = 365
    keep_around: int = 200
    # Days after which the rows of a run that has come to rest are only in Parquet files, not in the warehouse; 0: never.
    hot_days: float = 0
    # An object store (s3://bucket/folder) that gets a copy of the archive and of all rows as Parquet; empty: none.
    object_store: str = ""
    # What the store may take on disk in GiB: from 80 % on there is a warning. 0: as much as there is.
    disk_budget_gib: float = 0


def load_settings(path: Path | None = None, environ: Mapping[str, str] = os.environ, **given: Any) -> Settings:
    """Return the settings: defaults, then the TOML file, then `RUNVITALS_*`, then what the caller gives (None = not given).

    The file is `path`, else `RUNVITALS_CONFIG`, else `runvitals.toml` in the working directory if it is there.
    Raises SettingsError on an unknown key, a value of the wrong type, or a named file that is missing.
    """
    values = _from_file(path or environ.get(PREFIX + "CONFIG"))
    values |= {f.name: environ[PREFIX + f.name.upper()] for f in fields(Settings) if PREFIX + f.name.upper() in environ}
    values |= {name: value for name, value in given.items() if value is not None}
    return Settings(**{name: _convert(name, value) for name, value in values.items()})


def origins(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return where each setting comes from: the name of the variable or file that sets it, empty for a default."""
    named = path or environ.get(PREFIX + "CONFIG")
    set_there = _from_file(named)
    file = str(named or "runvitals.toml")
    in_file = {f.name: file if f.name in set_there else "" for f in fields(Settings)}
    variables = {f.name: PREFIX + f.name.upper() for f in fields(Settings)}
    return {name: variable if (variable := variables[name]) in environ else origin for name, origin in in_file.items()}


def _from_file(named: Path | str | None) -> dict[str, Any]:
    path = Path(named) if named else Path("runvitals.toml")
    if not path.exists():
        if named:
            raise SettingsError(f"The settings file {path} does not exist.")
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {path} is not valid TOML: {error}") from error
    unknown = sorted(set(values) - {f.name for f in fields(Settings)})
    if unknown:
        known = ", ".join(f.name for f in fields(Settings))
        raise SettingsError(f"The settings file {path} has an unknown key {unknown[0]!r}. Known keys: {known}.")
    return values


def _several(name: str, value: Any) -> tuple[Any, ...]:
    """Return a list of the file, or a text of the environment cut as its kind is (paths like PATH), without empty parts."""
    parts = value.split(os.pathsep if name == "watch" else ",") if isinstance(value, str) else list(value)
    texts = [str(part).strip() for part in parts if str(part).strip()]
    return tuple(Path(text).expanduser().absolute() for text in texts) if name == "watch" else tuple(texts)


def _convert(name: str, value: Any) -> Any:
    wanted = type(getattr(Settings, name))
    try:
        if wanted is tuple:
            return _several(name, value)
        if wanted is bool:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[str(value).lower()]
        # PosixPath, not Path: `Path(...)` instances have a platform class.
        return Path(value).expanduser() if issubclass(wanted, Path) else wanted(value)
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"The setting {name} can't be {value!r}: it needs a {wanted.__name__}.") from error

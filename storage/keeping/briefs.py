"""What a list of thousands of runs shows of each, of many runs in one query each."""

import json
from collections.abc import Iterable
from typing import Any

import duckdb

ASKED = "r.deleted is null and list_contains($ids, r.id)"


def configs(cursor: duckdb.DuckDBPyConnection, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the configuration that the log of each run prints, by run id."""
    sql = f"select r.id, json_extract(r.report, '$.config') from runs r where r.report is not null and {ASKED}"
    found = cursor.execute(sql, {"ids": list(ids)}).fetchall()
    return {run: json.loads(config) for run, config in found if config}


def judged(cursor: duckdb.DuckDBPyConnection, profile: str, ids: Iterable[str] | None) -> dict[str, int]:
    """Return for each of the runs (None: all) with a kept diagnosis the version of the data it was made for."""
    sql = (
        "select r.id, d.version from diagnoses d join runs r on r.no = d.run where d.profile = $profile "
        "and r.deleted is null and ($ids is null or list_contains($ids, r.id))"
    )
    return dict(cursor.execute(sql, {"profile": profile, "ids": None if ids is None else list(ids)}).fetchall())


def diagnoses(
    cursor: duckdb.DuckDBPyConnection, ids: Iterable[str], profile: str, *, critical: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the kept diagnosis of each of the runs that has one, by run id; critical: of those alone that may be."""
    sql = f"select r.id, d.data from diagnoses d join runs r on r.no = d.run where d.profile = $profile and {ASKED}"
    sql += """ and contains(d.data, '"critical"')""" if critical else ""  # reading those of 1,000 runs takes 0.1 s
    found = cursor.execute(sql, {"ids": list(ids), "profile": profile}).fetchall()
    return {run: json.loads(data) for run, data in found}

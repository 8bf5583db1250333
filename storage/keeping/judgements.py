"""What was found of runs and what people keep with them: diagnoses, small documents, holds."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from storage.keeping import briefs, kept
from storage.keeping.kept import Kept
from storage.keeping.reports import clean_text, dump_json
from storage.keeping.runs import value_of
from storage.keeping.schema import first_row, known, now
from storage.keeping.warehouse import Warehouse

OUTDATED = -1  # the version of no rows


class Judgements:
    """Of runs, beside their logs. What takes the id of a run raises UnknownRun."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def diagnosis(self, run_id: str, profile: str = "robust") -> tuple[int, dict[str, Any]] | None:
        """Return the kept diagnosis and the version of the data it was made for, None without one."""
        sql = (
            "select d.version, d.data from runs r left join diagnoses d on d.run = r.no and d.profile = ? "
            "where r.id = ? and r.deleted is null"
        )
        with self._warehouse.reading() as cursor:
            version, data = known(first_row(cursor, sql, [profile, run_id]), run_id)
            return None if data is None else (version, json.loads(data))

    def judged(self, profile: str = "robust", ids: Iterable[str] | None = None) -> dict[str, int]:
        """Return for each run (default: all) with a kept diagnosis the version of the data it was made for."""
        which = None if ids is None else tuple(ids)
        return dict(self._warehouse.answer(("judged", profile, which), lambda cursor: briefs.judged(cursor, profile, which)))

    def diagnoses(self, ids: Iterable[str], profile: str = "robust", *, critical: bool = False) -> dict[str, dict[str, Any]]:
        """Return the kept diagnosis of each of the runs that has one, by run id; critical: of those alone that may be."""
        with self._warehouse.reading() as cursor:
            return briefs.diagnoses(cursor, ids, profile, critical=critical)

    def save_diagnosis(self, run_id: str, profile: str, version: int, diagnosis: Mapping[str, Any]) -> None:
        """Keep the diagnosis of a run under a profile of thresholds, made for `version` of its data. Raises UnknownRun."""
        with self._warehouse.change({"judged"}) as cursor:
            no = value_of(cursor, run_id, "no")
            cursor.execute("delete from diagnoses where run = ? and profile = ?", [no, profile])
            values = [no, profile, version, dump_json(diagnosis), now()]
            cursor.execute("insert into diagnoses values (?, ?, ?, ?, ?)", values)

    def outdate_diagnoses(self) -> None:
        """Mark every kept diagnosis as one of rows that are no more: each run is to be judged anew."""
        with self._warehouse.change({"judged"}) as cursor:
            cursor.execute("update diagnoses set version = ?", [OUTDATED])

    def keep(self, kind: str, name: str, data: Any, *, run: str = "", who: str = "") -> None:
        """Keep a small JSON document (see storage/keeping/kept.py) in the place of the one of the same kind, run and name.

        Raises UnknownRun, and ValueError for one that is too large.
        """
        with self._warehouse.change({"kept"}) as cursor:
            if run:
                value_of(cursor, run, "no")
            kept.keep(cursor, kind, name, data, run=run, who=who)

    def drop(self, kind: str, name: str, *, run: str = "") -> None:
        """Remove a kept document if it is there."""
        with self._warehouse.change({"kept"}) as cursor:
            kept.drop(cursor, kind, name, run=run)

    def kept(self, kind: str, run: str | None = None) -> list[Kept]:
        """Return the documents of a kind (of one run; `""`: of none; None: of all), the oldest first."""
        return list(self._warehouse.answer(("kept", kind, run), lambda cursor: kept.load(cursor, kind, run)))

    def hold(self, run_id: str, reason: str) -> None:
        """Keep everything of a run whatever its age, for a reason (`baseline`, `golden`, `pinned`). Raises UnknownRun."""
        with self._warehouse.change() as cursor:
            value_of(cursor, run_id, "no")
            cursor.execute("delete from holds where run = ? and reason = ?", [run_id, reason])
            cursor.execute("insert into holds values (?, ?, ?)", [run_id, clean_text(reason), now()])

    def release(self, run_id: str, reason: str) -> None:
        """Take back a `hold`; the run ages when none is left."""
        with self._warehouse.change() as cursor:
            cursor.execute("delete from holds where run = ? and reason = ?", [run_id, reason])

    def holds(self) -> dict[str, list[str]]:
        """Return the reasons for which runs are held, by run id."""
        with self._warehouse.reading() as cursor:
            found = cursor.execute("select run, list(reason order by made) from holds group by run").fetchall()
            return dict(found)

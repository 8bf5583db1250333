"""What can be taken along of a chart: its full data as CSV or Parquet, itself as PNG or SVG."""

import logging
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from storage.types import Run
from ui import export, html, picture
from ui.text import _, number

LOG = logging.getLogger("runvitals.export")


def popover(
    run: Run, spec: dict[str, Any], buckets: pd.DataFrame, metrics: tuple[str, ...], segment: int | None, *, zoomed: bool
) -> None:
    """Offer the files; each is made when it is asked for."""
    box = st.popover(_("Export"), icon=":material/download:", key="export", on_change="rerun")
    if not box.open:
        return
    first, last = export.steps_of(buckets) if zoomed else (None, None)
    rows = export.Rows(run, metrics, first, last, segment)
    with box:
        html.quiet(_("The rows behind the chart, none left out"))
        if run.rows > export.MAX_ROWS and not zoomed:
            words = _("More than {n} rows: zoom in, or on the server: python cli.py export {run} FILE.parquet")
            html.warn(words.format(n=number(export.MAX_ROWS), run=run.id))
        else:
            _file("CSV", lambda: export.to_csv(rows), export.file_name(run, metrics, "csv"), "text/csv")
            _file(
                "Parquet",
                lambda: export.to_parquet(rows),
                export.file_name(run, metrics, "parquet"),
                "application/octet-stream",
            )
        html.quiet(_("The chart as it is drawn"))
        for kind, mime in (("png", "image/png"), ("svg", "image/svg+xml")):
            _file(kind.upper(), _drawn(run, spec, kind), export.file_name(run, metrics, kind), mime)


def _file(label: str, make: Callable[[], bytes], name: str, mime: str) -> None:
    st.download_button(label, make, name, mime, key=f"export-{label}", on_click="ignore", width="stretch")


def _drawn(run: Run, spec: dict[str, Any], kind: str) -> Callable[[], bytes]:
    theme = "dark" if st.context.theme.type == "dark" else "light"

    def make() -> bytes:
        return picture.render(picture.whole(spec, run.name, theme), kind)

    return make

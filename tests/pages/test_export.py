"""What is taken along of a chart: every row, and a picture in which Chinese is readable."""

import io
import struct
import subprocess
import sys

import pandas as pd
import pyarrow.parquet
import pytest

from tests.pages.helpers import canonical, take
from tests.ui.test_charts import MARKS, buckets
from ui import charts, export, picture, series
from ui.text import catalogue


@pytest.fixture
def rows(shop):
    run = shop.store.run(take(shop, canonical(300, nan=150), "a/b <1>.log"))

    def of(**given):
        return export.Rows(run, ("loss", "lr"), **given)

    return of


def test_csv_and_parquet_hold_every_row(rows, monkeypatch):
    monkeypatch.setattr(export, "PIECE_ROWS", 70)
    table = pd.read_csv(io.BytesIO(export.to_csv(rows())), keep_default_na=False, na_values=[""])
    assert list(table.columns) == [*export.PLACES, "loss", "lr"]
    assert table["step"].tolist() == list(range(10, 3001, 10))
    assert table["loss"].astype(str)[150] == "nan"
    packed = pyarrow.parquet.read_table(io.BytesIO(export.to_parquet(rows())))
    assert packed["step"].to_pylist() == table["step"].tolist()
    assert packed["loss"].null_count == 0


def test_a_zoom_exports_its_range_alone(rows):
    table = pd.read_csv(io.BytesIO(export.to_csv(rows(first_step=100, last_step=200))))
    assert (table["step"].min(), table["step"].max(), len(table)) == (100, 200, 11)


def test_the_range_of_steps_is_that_of_the_buckets(shop):
    run = take(shop, canonical(300), "a.log")
    found = shop.store.buckets(run, ["loss"], first=500, last=1000, width=50)
    assert export.steps_of(found) == (500, 1000)
    assert export.steps_of(found.iloc[:0]) == (None, None)


def test_names_of_files_are_safe(rows):
    assert export.file_name(rows().run, ["eval/loss"], "csv") == "a_b__1_.log-eval_loss.csv"


def chart(title: str) -> dict:
    frame = series.series(buckets(loss=3.0), "loss")
    spec = charts.stack((charts.Panel("损失", (charts.Series("loss0", "loss"),)),), charts.Words(), charts.Axis("步"))
    data = {"loss0": series.compact(frame), charts.MARKS: series.compact(MARKS)}
    return picture.whole({**spec, "datasets": data}, title)


def test_a_picture_is_svg_or_png_with_colours_and_a_title():
    svg = picture.render(chart('训练 <run> & "a"'), "svg").decode()
    assert "训练 &lt;run&gt;" in svg
    assert picture.colours("light")["blue"].lower() in svg.lower()
    assert "NaN,NaN" not in svg
    png = picture.render(chart("x"), "png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", png[16:20])[0] > 1500  # 150 dots an inch


def test_what_can_not_be_drawn_is_an_error_not_an_end():
    with pytest.raises(picture.NotDrawn):
        picture.render({"mark": "nonsense", "encoding": []}, "svg")


def test_chinese_is_in_the_font_that_comes_along():
    """R190: no boxes, also where the system has no Chinese font."""
    covered = _characters((picture.FONTS / "NotoSansSC-common.otf").read_bytes())
    words = " ".join(str(message) for message in catalogue("zh_CN").values())
    assert {c for c in words if "\u4e00" <= c <= "\u9fff"} <= covered


def test_signs_are_in_the_font_that_comes_along():
    covered = _characters((picture.FONTS / "DejaVuSans-signs.ttf").read_bytes())
    drawn = {"✕", "▲", "▼", *(series._sign(kind)[0] for kind in ("checkpoint_saved", "resume", "out_of_memory", "other"))}
    assert drawn <= covered


def _characters(font: bytes) -> set[str]:
    """Return the characters of an OpenType font: its cmap of format 4 or 12."""
    count = struct.unpack(">H", font[4:6])[0]
    records = [struct.unpack(">4sIII", font[12 + 16 * i : 28 + 16 * i]) for i in range(count)]
    start = next(offset for tag, _sum, offset, _length in records if tag == b"cmap")
    tables = struct.unpack(">H", font[start + 2 : start + 4])[0]
    found: set[str] = set()
    for i in range(tables):
        at = start + struct.unpack(">I", font[start + 8 + 8 * i : start + 12 + 8 * i])[0]
        kind = struct.unpack(">H", font[at : at + 2])[0]
        if kind == 4:
            half = struct.unpack(">H", font[at + 6 : at + 8])[0]
            ends = struct.unpack(f">{half // 2}H", font[at + 14 : at + 14 + half])
            starts = struct.unpack(f">{half // 2}H", font[at + 16 + half : at + 16 + 2 * half])
            found |= {chr(c) for first, last in zip(starts, ends, strict=True) for c in range(first, last + 1)}
    return found


def test_the_server_does_not_load_the_javascript_engine():
    code = "import ui.picture, sys; print('vl_convert' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=picture.ROOT, check=True)
    assert done.stdout.strip() == "False"

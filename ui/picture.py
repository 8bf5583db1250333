"""A chart as a picture file, drawn without a browser: SVG, or PNG at 150 dots an inch.

vl-convert runs in a process of its own: its JavaScript engine would stay in the server's memory, and a chart that it can't
draw must not take the server along. Fonts: those of the system, and `fonts/` for Chinese where the system has none.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).parent.parent
FONTS = Path(__file__).with_name("fonts")
NAMES = ("blue", "orange", "green", "violet", "red", "gray")
WIDTH_PX, SECONDS, DPI = 1000, 60, 150
FONT = "Inter, Helvetica, Arial, Liberation Sans, Noto Sans, Noto Sans CJK SC, sans-serif"


class NotDrawn(RuntimeError):
    """The picture could not be made; the message is for the server's log."""


@cache
def colours(theme: str) -> dict[str, str]:
    """Return the colours of a theme (`light` or `dark`) by the names that specs use."""
    found = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["theme"][theme]
    return {name: found[f"{name}Color"] for name in NAMES} | {"paper": found["backgroundColor"], "ink": found["textColor"]}


def whole(spec: Mapping[str, Any], title: str, theme: str = "light") -> dict[str, Any]:
    """Return a spec that stands for itself: data as records, colours as numbers, a width, a title, a font."""
    tones = colours(theme)
    data = {name: _records(table) for name, table in spec["datasets"].items()}
    bare = {name: value for name, value in spec.items() if name != "datasets"}
    drawn = _painted(bare, tones)
    for view in drawn.get("vconcat", [drawn]):
        view["width"] = WIDTH_PX
    config = {**drawn.get("config", {}), "font": FONT, "background": tones["paper"]}
    config |= {kind: {**config.get(kind, {}), "labelColor": tones["ink"], "titleColor": tones["ink"]} for kind in ("axis",)}
    config["title"] = {"color": tones["ink"], "fontSize": 13, "anchor": "start", "offset": 14}
    return {**drawn, "config": config, "datasets": data, "title": {"text": title[:200]}, "padding": 16}


def _records(data: pa.Table | bytes) -> list[dict[str, Any]]:
    """Return the rows of a dataset: a table, or one as it goes to the browser."""
    table = pa.ipc.open_stream(data).read_all() if isinstance(data, bytes) else data
    return list(table.to_pylist())


def _painted(part: Any, tones: Mapping[str, str]) -> Any:
    """Return a part of a spec with the names of colours replaced wherever one stands alone."""
    if isinstance(part, dict):
        # The domain of a colour scale names the tones of the data; only its range is paint.
        return {key: value if key == "domain" else _painted(value, tones) for key, value in part.items()}
    if isinstance(part, list):
        return [_painted(value, tones) for value in part]
    return tones.get(part, part) if isinstance(part, str) and part in NAMES else part


def render(spec: Mapping[str, Any], kind: str) -> bytes:
    """Return the picture of a whole spec, `kind` is `svg` or `png`. Raises NotDrawn."""
    text = json.dumps(_finite(spec), default=str)
    command = [sys.executable, "-m", "ui.picture", kind]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=SECONDS, cwd=ROOT, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotDrawn("it took too long") from error
    if done.returncode or not done.stdout:
        raise NotDrawn(done.stderr.decode(errors="replace")[-500:])
    return done.stdout


def _finite(value: Any) -> Any:
    """Return a value that JSON has: NaN and infinities, which draw nothing, become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value


def _main(kind: str) -> None:
    import vl_convert

    vl_convert.register_font_directory(str(FONTS))
    spec = json.load(sys.stdin)
    if kind == "svg":
        sys.stdout.buffer.write(vl_convert.vegalite_to_svg(spec, vl_version="6.4").encode())
    else:
        sys.stdout.buffer.write(vl_convert.vegalite_to_png(spec, vl_version="6.4", ppi=DPI))


if __name__ == "__main__":
    _main(sys.argv[1])

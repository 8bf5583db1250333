"""A comparison in words and HTML: the verdict, may-I-say-so, the differences as intervals, the figures, the settings."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.compare.align import EQUAL as EQUAL_WORDS
from analysis.compare.align import TITLES
from analysis.compare.comparison import Comparison
from analysis.compare.conditions import GROUP_TITLES, SIX_TITLES
from analysis.compare.config_diff import DIFFERENT, EQUAL, Row
from analysis.compare.fairness import BAR, GOOD, NOTE, REFUSE, STEP, WARN
from analysis.compare.numbers import Triple
from analysis.compare.pairs import ALIKE, BETTER, REFUSED, REPEATS, UNEXPLAINED, UNKNOWN, WORSE, Pair
from messages import N_, Text
from ui import compare_frames
from ui.compare_charts import OVERLAYS, paint
from ui.compare_frames import compact, labels, ordered, value_words
from ui.html import escape, grid, icon, tag
from ui.state import metric_title
from ui.text import _, duration, number, percent, say, size_words
from ui.words import first_up

LOOKS = {  # of a verdict: CSS class, icon
    BETTER: ("rv-good", "trending_down"),
    WORSE: ("rv-good", "trending_down"),
    ALIKE: ("rv-none", "drag_handle"),
    REPEATS: ("rv-none", "content_copy"),
    UNEXPLAINED: ("rv-none", "help"),
    REFUSED: ("rv-warn", "block"),
    UNKNOWN: ("rv-none", "help"),
}
PAIR_CSS = {BETTER: "rv-good", WORSE: "rv-bad", REFUSED: "rv-warn"}
LEVELS = {REFUSE: ("rv-bad", "block"), BAR: ("rv-bad", "block"), STEP: ("rv-warn", "block"), WARN: ("rv-warn", "warning")}
LEVELS |= {NOTE: ("rv-none", "info"), GOOD: ("rv-good", "check")}
STATUS = {EQUAL: ("rv-good", "check", N_("equal")), DIFFERENT: ("rv-warn", "difference", N_("different"))}
NOT_KNOWN = ("rv-none", "help", N_("unknown"))
HEADLINES = {
    BETTER: N_("Better"),
    WORSE: N_("The base leads"),
    ALIKE: N_("Not distinguishable"),
    REPEATS: N_("Repeats"),
    UNEXPLAINED: N_("Apart, cause unknown"),
    REFUSED: N_("Not comparable"),
    UNKNOWN: N_("Not known"),
}
ONLY_THE_FALL = N_("Only the fall compares")
LISTED = 6  # reasons that stand in sight; the rest below


def verdict(told: Comparison) -> str:
    """Return the verdict: what kind, the sentence, what became of runs that broke or lag."""
    css, sign, head = look(told)
    badge = tag("span", icon(sign) + escape(_(head)), "rv-badge")
    line = tag("p", badge + tag("span", escape(sentence(told.sentence)), "rv-sentence", title=_whole_names(told)), "rv-line")
    states = "".join(tag("li", icon("warning") + escape(say(state.text))) for state in told.states[:LISTED])
    below = tag("ul", states, "rv-states") if states else ""
    return tag("section", line + below, f"rv-verdict {css}", role="status")


def _whole_names(told: Comparison) -> str:
    """Return which run each short name stands for, "" where every run goes by its own name."""
    return "\n".join(f"{side.name}: {side.subject.name}" for side in told.sides if side.name != side.subject.name)


def look(told: Comparison) -> tuple[str, str, str]:
    """Return (CSS class, icon, headline) of the verdict: none is simply better whose loss means something else, unless the
    other broke down."""
    if told.view.relative and told.winner is not None and told.sides[told.winner[1]].subject.id not in told.broken:
        return "rv-warn", "warning", ONLY_THE_FALL
    return *LOOKS[told.verdict], HEADLINES[told.verdict]


def sentence(text: Text) -> str:
    """Return a sentence with a capital letter, unless it begins with a name."""
    said = say(text)
    return said if text.template.startswith("{") else first_up(said)


def spread_words(told: Comparison) -> str:
    """Return what the intervals hold, "" where no run has one."""
    if not any(found.error is not None for pair in told.pairs for found in pair.differences.values()):
        return ""
    share = number(100 * told.view.spread, digits=2)
    if told.repeats:
        words = _(
            "Intervals (95 %, for all runs together) hold each run's noise and how far repeats here lie apart: {share} %."
        )
    else:
        words = _("Intervals (95 %, for all runs together) hold each run's noise and {share} % for the luck of one run.")
    return words.format(share=share)


def forest(told: Comparison) -> str:
    """Return the runs beside the base: label, verdict, interval drawn and in words; "" for a single run."""
    frame = compare_frames.forest(told)
    if not len(frame):
        return ""
    reach = compare_frames.reach(told, frame)
    rows = [_forest_row(told, row, reach) for row in frame.to_dict("records")]
    where = _(EQUAL_WORDS[told.view.axis]) if told.view.axis else ""
    base = labels(told)[told.base]
    head = tag("th", escape(_("Beside {base}").format(base=base)), scope="col", colspan="2")
    what = metric_title(told.view.metric or "loss")
    plot = _("{metric}: less ← {where} → more").format(metric=what, where=where)
    head += tag("th", escape(plot), "rv-plot", scope="col")
    head += tag("th", "", "rv-number", scope="col")
    return grid(tag("tr", head) + "".join(rows), "rv-forest")


def _forest_row(told: Comparison, row: dict[str, object], reach: float) -> str:
    pair = told.pairs[int(str(row["order"]))]
    swatch = _swatch(ordered(told).index(pair.run), len(told.sides))
    name = tag("th", swatch + escape(row["label"]), scope="row", title=f"{told.sides[pair.run].subject.name}: {say(pair.text)}")
    word = tag("td", escape(row["word"]), "rv-word")
    plot, text = "", escape(row["text"])
    if row["value"] == row["value"]:
        low, value, high = (50 + 50 * float(str(row[key])) / reach for key in ("low", "value", "high"))
        inside = value if 0 <= value <= 100 else None
        low, high = min(max(low, 0.0), 100.0), min(max(high, 0.0), 100.0)
        plot = tag("i", "", "rv-zero") + tag("i", "", "rv-span", style=f"left:{low:.2f}%;width:{max(high - low, 0.5):.2f}%")
        plot += (
            tag("i", "", "rv-dot", style=f"left:{inside:.2f}%")
            if inside is not None
            else tag("i", "▸" if value > 100 else "◂", "rv-beyond", style="right:0" if value > 100 else "left:0")
        )
    cells = name + word + tag("td", tag("span", plot, "rv-track"), "rv-plot") + tag("td", text, "rv-number")
    return tag("tr", cells, PAIR_CSS.get(pair.kind, "rv-none"))


def _swatch(order: int, count: int) -> str:
    """Return the colour and dash of a run, as the chart has them; nothing where there are small multiples."""
    if count > OVERLAYS:
        return ""
    hue, dash = paint(order)
    return tag("span", "", f"rv-stroke rv-{hue}{' rv-dashed' if dash[1] else ''}", aria_hidden="true")


def legend(told: Comparison, orders: Mapping[int, int], named: Mapping[int, str]) -> str:
    """Return the legend of the overlay: runs by what differs, their names on hover.

    orders: the place of each in the drawn order, and the place that its colour is of. named: by the latter, what stands there.
    """
    drawn = ordered(told)
    items = [
        tag("span", _swatch(place, 0) + escape(named[place]), title=told.sides[drawn[order]].subject.name)
        for order, place in orders.items()
    ]
    return tag("div", "".join(items), "rv-legend")


def chips(told: Comparison) -> str:
    """Return the six condition classes and the four groups: equal, different or unknown, and in what."""
    six = [_chip(_(SIX_TITLES[name]), *found) for name, found in told.diff.six.items()]
    four = [_chip(_(GROUP_TITLES[name]), *found) for name, found in told.diff.groups.items()]
    rows = [(_("Conditions"), six), (_("Groups"), four)]
    return "".join(tag("div", tag("span", escape(name), "rv-quiet") + "".join(found), "rv-chips") for name, found in rows)


def _chip(title: str, status: str, what: Sequence[str]) -> str:
    css, sign, word = STATUS.get(status, NOT_KNOWN)
    names = ", ".join(_(name) for name in what[:4]) + (" …" if len(what) > 4 else "")
    about = f": {names}" if names and status == DIFFERENT else ""
    inside = icon(sign) + tag("b", escape(title)) + " " + escape(_(word) + about)
    return tag("span", inside, f"rv-chip {css}", title=names)


def reasons(told: Comparison) -> tuple[str, str]:
    """Return what is to be said about fairness: the reasons in sight, and the rest ("" where there is none)."""
    items = []
    for reason in told.fair.reasons:
        css, sign = LEVELS[reason.level]
        items.append(tag("li", icon(sign) + tag("span", escape(sentence(reason.text))), css))
    shown, rest = items[:LISTED], items[LISTED:]
    return tag("ul", "".join(shown), "rv-reasons"), tag("ul", "".join(rest), "rv-reasons") if rest else ""


def figures_table(told: Comparison) -> str:
    """Return the figures of each run as a table, each with its interval; columns that no run has are left out."""
    frame = figures_frame(told)
    head = "".join(tag("th", escape(name), "" if place == 0 else "rv-number", scope="col") for place, name in enumerate(frame))
    rows = []
    for order, cells in zip(ordered(told), frame.itertuples(index=False), strict=True):
        swatch = _swatch(ordered(told).index(order), len(told.sides))
        first = tag("th", swatch + escape(cells[0]), scope="row", title=told.sides[order].subject.name)
        rows.append(tag("tr", first + "".join(tag("td", _with_range(cell), "rv-number") for cell in cells[1:])))
    return grid(tag("tr", head) + "".join(rows), "rv-ledger rv-figures-table")


def _with_range(cell: str) -> str:
    """Return a figure whose interval goes to a line of its own where the table has no room."""
    value, bracket, interval = cell.partition(" (")
    return tag("span", escape(value)) + (" " + tag("span", escape(f"({interval}")) if bracket else "")


def figures_frame(told: Comparison) -> pd.DataFrame:
    """Return the figures in words, a row a run, the base first."""
    named = labels(told)
    rows = [{_("Run"): named[n]} | _figures(told, n) for n in ordered(told)]
    frame = pd.DataFrame(rows)
    return frame[[name for name in frame.columns if (frame[name] != "–").any()]]


def _figures(told: Comparison, position: int) -> dict[str, str]:
    one, run = told.numbers[position], told.sides[position].subject.id
    # The first loss of a run that diverged before its first line is no start from which to count.
    fall = None if any(state.run == run and state.code == "diverged" for state in told.states) else one.fall
    target, reached, metric = target_words(told), one.reached or {}, metric_title(told.view.metric or "loss")
    words = {
        _start_title(told).format(metric=metric): number(one.first),
        _("{metric} at the end (mean)").format(metric=metric): number(one.end),
        _("Fell by"): _share(fall),
    }
    for axis in ("step", "tokens", "hours", "money"):
        span = reached.get(axis)
        title = _("{axis} to {target}").format(axis=_("Time") if axis == "hours" else _(TITLES[axis]), target=target)
        words[title] = (
            "–" if span is None else _time_span(span) if axis == "hours" else f"{compact(_three(span[1]))} ({_span(span)})"
        )
    words[_("Step time")] = "–" if one.step_seconds is None else f"{number(one.step_seconds[1], digits=3)} s"
    words[_("Throughput")] = "–" if one.throughput is None else f"{number(one.throughput, digits=3)} {_unit(one.unit)}"
    words[_("Memory")] = "–" if one.memory is None else size_words(int(one.memory))
    words[_("Time so far")] = "–" if one.hours is None else duration(one.hours * 3600)
    words[_("GPU-hours")] = number(one.gpu_hours, digits=3)
    words[_("Money")] = number(one.money, digits=3)
    words[_("Productive")] = "–" if one.goodput is None else percent(one.goodput)
    return words


def _start_title(told: Comparison) -> str:
    """Return what the first loss is called: of long runs it is the mean of many rows."""
    several = any(one.first_rows > 1 for one in told.numbers)
    return _("{metric} at the start (mean)") if several else _("{metric} at the start")


def target_words(told: Comparison) -> str:
    """Return what “what it took” is about: a loss, or a share of the first loss of each run; "" where there is none."""
    if told.target is None:
        return ""
    if told.target.of_first:
        return _("{share} of the first loss").format(share=percent(told.target.value, digits=1))
    return number(told.target.value)


def equal_table(told: Comparison) -> str:
    """Return the difference of each run to the base at equal values of every axis; "" where there are not two with one."""
    known = {axis for pair in told.pairs for axis, found in pair.differences.items() if found.error is not None}
    axes = [axis for axis in told.view.axes if axis in known]
    if len(axes) < 2:
        return ""
    named = labels(told)
    head = tag("th", escape(_("To the base")), scope="col")
    head += "".join(tag("th", escape(_(EQUAL_WORDS[axis])), "rv-number", scope="col") for axis in axes)
    rows = []
    for pair in told.pairs:
        cells = [_equal_cell(pair, axis) for axis in axes]
        rows.append(tag("tr", tag("th", escape(named[pair.run]), scope="row") + "".join(cells)))
    return grid(tag("tr", head) + "".join(rows), "rv-ledger rv-figures-table")


def _equal_cell(pair: Pair, axis: str) -> str:
    found = pair.differences.get(axis)
    if found is None or found.value is None or found.error is None:
        return tag("td", "–", "rv-number")
    if found.hidden:
        return tag("td", tag("span", escape(_(compare_frames.HIDDEN)), "rv-quiet"), "rv-number")
    scale = 100.0 if found.log else 1.0
    low, high = (scale * end for end in found.interval)
    words = compare_frames.interval_words(low, scale * (found.relative or 0.0), high, percent=found.log)
    return tag("td", _with_range(words), "rv-number" if found.distinguishable else "rv-number rv-quiet")


def _share(fall: Triple | None) -> str:
    if fall is None:
        return "–"
    low, middle, high = (percent(share, digits=1) for share in fall)
    return middle if low == high else f"{middle} ({low}–{high})"


def _span(span: Triple) -> str:
    """Return an interval; one without an end is not surely reached at all."""
    if math.isinf(span[2]):
        return _("at least {low}").format(low=compact(_three(span[0])))
    return f"{compact(_three(span[0]))}–{compact(_three(span[2]))}"


def _three(value: float) -> float:
    """Return a number with three digits, a whole number from 100 on."""
    return value if not math.isfinite(value) else float(round(value)) if abs(value) >= 100 else float(f"{value:.3g}")


def _time_span(hours: Triple) -> str:
    """Return a time with its interval in hours, minutes or seconds, as long as it is."""
    for factor, unit in ((1, _("h")), (60, _("min")), (3600, _("s"))):
        if hours[1] * factor >= 1 or factor == 3600:
            low, middle, high = (value * factor for value in hours)
            return f"{number(middle, digits=3)} {unit} ({_span((low, middle, high))})"
    return "–"


def _unit(unit: str) -> str:
    words = {"tokens_per_second": _("tokens/s"), "samples_per_second": _("samples/s"), "steps_per_second": _("steps/s")}
    return words.get(unit, "")


def settings_frame(told: Comparison, *, everything: bool = False) -> pd.DataFrame:
    """Return the settings that differ (or are unknown to some): setting, group, status, a column a run."""
    named = labels(told)
    rows = [row for row in told.diff.rows if everything or row.status == DIFFERENT]
    found = []
    for row in rows:
        values = {label: value_words(value) for label, value in zip(named, row.values, strict=True)}
        found.append(
            {_("Setting"): _(row.title) if row.known else row.key, _("Group"): _(GROUP_TITLES[row.group])} | _kind(row) | values
        )
    return pd.DataFrame(found)


def _kind(row: Row) -> dict[str, str]:
    word = _(STATUS.get(row.status, NOT_KNOWN)[2])
    about = _("variable") if row.varied else _("follows") if row.follows else _("places and printing") if row.neutral else ""
    return {_("Status"): f"{word} · {about}" if about and row.status == DIFFERENT else word}


def expected(told: Comparison) -> tuple[str, str]:
    """Return what the changes should do and did: what is in sight, what was not as expected first, and the rest."""
    items = []
    for pair in told.pairs:
        for one in pair.expected:
            css, sign = (
                ("rv-none", "help") if one.met is None else ("rv-good", "check") if one.met else ("rv-warn", "question_mark")
            )
            about = tag("span", escape(told.sides[pair.run].name + ": "), "rv-quiet") if len(told.pairs) > 1 else ""
            order = {False: 0, True: 1, None: 2}[one.met]
            items.append((order, tag("li", icon(sign) + tag("span", about + escape(say(one.text))), css)))
    lines = [line for _order, line in sorted(items, key=lambda item: item[0])]
    parts = lines[:LISTED], lines[LISTED:]
    return tuple(tag("ul", "".join(part), "rv-reasons") if part else "" for part in parts)  # type: ignore[return-value]


def sentences(said: Sequence[str]) -> str:
    """Return sentences as a list."""
    return tag("ul", "".join(tag("li", tag("span", escape(one))) for one in said), "rv-reasons")


def partings(told: Comparison) -> list[str]:
    """Return where each run parts from the base, as sentences."""
    said = [sentence(pair.parting.text) for pair in told.pairs if pair.parting is not None]  # a name keeps its first letter
    return [_("{words}.").format(words=words) for words in said]

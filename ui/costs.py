"""What the page Time & cost says: the end as a sentence, the amounts, the ledger as frames and words, all runs as a table."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from babel.dates import format_skeleton, format_time
from babel.numbers import format_currency
from babel.units import format_unit

from analysis.cost import CostReport
from analysis.forecast import Forecast
from analysis.ledger import PARTS, Item
from analysis.time_left import Estimate
from messages import verbatim
from server.costs import Costs, Outlook, outlook
from server.totals import Paid
from storage.types import Run
from ui import outcome
from ui.cost_charts import TONES
from ui.html import escape, figure, grid, icon, tag
from ui.text import _, as_utc, duration, language, local, ngettext, number, percent, say
from ui.words import as_sentence, first_up

LONG = timedelta(days=200)
UNFELT = 0.01  # a gain smaller than this share of the range of the final loss is none


def money(value: float | None, currency: str) -> str:
    """Return an amount of money as it is written in the reader's language; a dash where it is not known."""
    if value is None:
        return "–"
    digits = 2 if abs(value) < 1000 else 0
    pattern = "¤#,##0." + "0" * digits if digits else "¤#,##0"
    return format_currency(value, currency[:8] or "USD", format=pattern, locale=language(), currency_digits=False)


def sentence(costs: Costs, run: Run) -> str:
    """Return the banner: when it is done, as a date where the log has one, what it costs, what was lost."""
    report = costs.report
    amounts = tuple(words for words in (_assumption(report), _amounts(costs), _lost(costs)) if words)
    if report.over:
        done = report.left is not None
        words = outcome.over(run, as_told=done)
        if report.elapsed is not None:
            words = _("{ended}. It took {time}.").format(ended=words, time=duration(report.elapsed))
        good = done and outcome.whole(run)
        return _banner(words, amounts, "check_circle" if good else "stop_circle", "rv-good" if good else "rv-none")
    if report.of_no_use is not None:
        return _banner(_of_no_use(report), amounts, "warning", "rv-bad")
    if report.left is None:
        why = say(report.why) if report.why else ""
        return _banner(_("When it is done can't be told: {why}.").format(why=why), amounts, "help", "rv-none")
    left = report.left
    if costs.ends:
        words = dated(costs.ends, costs.ends[1] - timedelta(seconds=left.p50))
    else:
        words = _("{middle} of running left, between {low} and {high}.") if _span(left) else _("{middle} of running left.")
        words = words.format(middle=duration(left.p50), low=duration(left.p10), high=duration(left.p90))
    sure = not report.assumed and (not costs.ends or costs.ends[1] > datetime.now(UTC))
    return _banner(words, amounts, "event", "rv-warn" if report.warnings else "rv-good" if sure else "rv-none")


def _span(left: Estimate) -> str:
    """Return the range of the time left, nothing where its ends read the same."""
    low, high = duration(left.p10), duration(left.p90)
    return "" if low == high else _("{low} to {high}").format(low=low, high=high)


def _assumption(report: CostReport) -> str:
    """Return what the times rest on while it is only assumed."""
    return as_sentence(say(report.epoch.text)) if report.assumed and report.epoch else ""


def _of_no_use(report: CostReport) -> str:
    """Return why it is of no use to finish the run, and what that would take all the same."""
    why = first_up(say(report.of_no_use)) if report.of_no_use else ""
    if report.left is None:
        return f"{why}."
    return _("{why}. To finish it all the same takes {middle} more, between {low} and {high}.").format(
        why=why, middle=duration(report.left.p50), low=duration(report.left.p10), high=duration(report.left.p90)
    )


def dated(ends: tuple[datetime, datetime, datetime], last: datetime) -> str:
    """Return when a run is done (early, middle, late); last: of its last line. What is long past is told as a condition."""
    early, middle, late = ends
    near = {"early": when(early, middle), "late": when(late, middle)}
    span = _("{date}, between {early} and {late}").format(date=when(middle), **near)
    gaps = {"date": when(middle) if near["early"] == near["late"] else span, "last": when(last)}
    worth = outlook(middle, last)
    if worth is Outlook.PASSED:
        words = _("If it had gone on, it would have been done {date} by the clock of the log: its last line is from {last}.")
        return words.format(**gaps)
    if worth is Outlook.SILENT:
        return _("If it goes on, it is done {date}: its last line is from {last}.").format(**gaps)
    return _("Done {date}.").format(**gaps)


def _banner(words: str, amounts: Sequence[str], sign: str, tone: str) -> str:
    line = tag("p", tag("span", icon(sign), "rv-badge") + tag("span", escape(words), "rv-sentence"), "rv-line")
    below = "".join(tag("p", escape(text), "rv-quiet") for text in amounts)
    return tag("section", line + below, f"rv-verdict rv-alone {tone}", role="status")


def _amounts(costs: Costs) -> str:
    """Return what it costs in a sentence, and what is needed where that is not known."""
    report, model = costs.report, costs.report.model
    if report.missing:
        return " · ".join(first_up(say(text)) for text in report.missing)
    if report.elapsed is None:
        return ""
    spent = money(model.money(report.elapsed), model.currency)
    if report.total is None or report.over:
        return _("{spent} spent").format(spent=spent)
    low, middle, high = (money(model.money(value), model.currency) for value in report.total)
    return _("{spent} spent of about {total} ({low} to {high})").format(spent=spent, total=middle, low=low, high=high)


def _lost(costs: Costs) -> str:
    """Return what share of the time was lost, its price, and to what most of it, in a sentence."""
    book, model = costs.report.book, costs.report.model
    if book is None or book.goodput is None:
        return ""
    if not book.waste or book.goodput > 0.9995:
        return _("All of the time was productive.")
    worst = book.waste[0]
    paid = model.money((1 - book.goodput) * book.seconds)
    gaps = {"share": percent(1 - book.goodput, digits=1), "part": _(PARTS[worst.name]), "worst": percent(worst.share, digits=1)}
    if paid is None:
        return _("{share} of the time was not productive, most of it: {part} ({worst}).").format(**gaps)
    gaps["amount"] = money(paid, model.currency)
    return _("{share} of the time was not productive, worth {amount}, most of it: {part} ({worst}).").format(**gaps)


def when(moment: datetime, beside: datetime | None = None) -> str:
    """Return a moment in the reader's time zone: day and time, only the time if it is the day of another one `beside` it."""
    here = local(moment)
    clock = format_time(here, "HH:mm", locale=language())
    if beside is not None and local(beside).date() == here.date():
        return clock
    day = format_skeleton("MMMEd" if abs(here - datetime.now(UTC)) < LONG else "yMMMEd", here, locale=language())
    return f"{day} {clock}"


def strip(costs: Costs) -> Iterator[str]:
    """Yield the headline figures; what is not known is left out."""
    report, model = costs.report, costs.report.model
    if report.elapsed is not None:
        yield figure(_("Time so far"), duration(report.elapsed), title=say(report.book.source) if report.book else "")
    if report.left is not None and not report.over:
        span = _span(report.left)
        if report.of_no_use is not None:
            words = _("{low} to {high}, if it is finished all the same")
            span = words.format(low=duration(report.left.p10), high=duration(report.left.p90))
        yield figure(_("Time left"), duration(report.left.p50), span, title=say(report.left.source))
    whole = report.total[1] if report.total else report.elapsed
    if whole is not None and (hours := model.gpu_hours(whole)) is not None:
        note = f"{model.gpus} × {model.gpu}" if model.gpu else f"{model.gpus} × GPU"
        yield figure(_("GPU-hours in all"), number(hours, digits=3), note)
    if whole is not None and (kwh := model.kwh(whole)) is not None:
        co2 = model.co2_kg(whole)
        note = _("{kg} kg CO₂").format(kg=number(co2, digits=3)) if co2 is not None else ""
        source = dict(model.sources).get("energy")
        yield figure(_("Energy in all"), f"{number(kwh, digits=3)} kWh", note, title=say(source) if source else "")
    if report.book is not None and report.book.goodput is not None:
        yield figure(
            _("Productive"), percent(report.book.goodput, digits=1), title=_("Share of the time that moved the run on")
        )
    if costs.throughput.tokens_per_second:
        rate = f"{number(costs.throughput.tokens_per_second, digits=3)} tok/s"
        mfu = _("MFU {share}").format(share=percent(costs.throughput.mfu, digits=1)) if costs.throughput.mfu else ""
        yield figure(_("Throughput"), rate, mfu, title=say(costs.throughput.formula))


UNITS = (("second", 1.0), ("minute", 60.0), ("hour", 3600.0), ("day", 86_400.0))


def unit_of(costs: Costs) -> tuple[str, float]:
    """Return the unit in which the axis of the ledger counts, as it stands behind a number, and its seconds: the largest of
    which there are more than two."""
    total = costs.report.book.seconds if costs.report.book else 0.0
    name, seconds = max((one for one in UNITS if one[1] * 2 < total), key=lambda one: one[1], default=UNITS[0])
    return _behind(name), seconds


def _behind(unit: str) -> str:
    """Return a unit of time as it stands behind a number, ` min` or `分钟`."""
    return format_unit(0, f"duration-{unit}", length="short", locale=language()).removeprefix("0")


def _took(seconds: float) -> str:
    """Return how long a part took, short ones with decimals."""
    if seconds >= 600:
        return duration(seconds)
    unit, size = ("minute", 60.0) if seconds >= 60 else ("second", 1.0)
    return number(seconds / size, digits=3) + _behind(unit)


def parts(costs: Costs) -> pd.DataFrame:
    """Return the ledger as the pieces of one bar, in `unit_of`: productive first, then the waste, largest first."""
    book, (_unit, in_seconds) = costs.report.book, unit_of(costs)
    items: Sequence[Item] = ()
    if book is not None:
        items = (*(item for item in book.items if item.name == "productive"), *book.waste)
    rows, at = [], 0.0
    for item in items:
        length = item.seconds / in_seconds
        rows.append(
            {
                "name": item.name,
                "title": _(PARTS[item.name]),
                "lane": "",
                "from": at,
                "until": at + length,
                "amount": _took(item.seconds),
                "share": percent(item.share, digits=1),
                "tone": TONES[item.name],
                "opacity": 0.45 if item.name == "productive" else 1.0,
            }
        )
        at += length
    return pd.DataFrame(rows)


def ledger_table(costs: Costs, run: Run) -> str:
    """Return the waste as a table, the largest first, each line a link to its steps."""
    model, book = costs.report.model, costs.report.book
    if book is None:
        return ""
    heads = (_("Part"), _("Time"), _("Share"), _("GPU-hours"), _("Cost"))
    head = tag(
        "tr", "".join(tag("th", escape(word), "" if i == 0 else "rv-number", scope="col") for i, word in enumerate(heads))
    )
    items = (*book.waste, *(item for item in book.items if item.name == "productive"))
    rows = "".join(_ledger_row(item, costs, run) for item in items)
    whole = (
        _("Together"),
        _took(book.seconds),
        percent(1.0),
        number(model.gpu_hours(book.seconds), digits=3),
        money(model.money(book.seconds), model.currency),
    )
    total = tag(
        "tr",
        "".join(tag("th" if i == 0 else "td", escape(word), "" if i == 0 else "rv-number") for i, word in enumerate(whole)),
        "rv-total",
    )
    return grid(head + rows + total, "rv-ledger")


def _ledger_row(item: Item, costs: Costs, run: Run) -> str:
    model = costs.report.model
    name = escape(_(PARTS[item.name]))
    if item.step is not None and item.name != "productive" and run.first_step is not None:
        around = max(((run.last_step or item.step) - run.first_step) // 20, 10)
        href = f"health?run={run.id}&x0={max(item.step - around, 0)}&x1={item.step + around}"
        where = _("step {step}").format(step=number(item.step))
        name += " " + tag("a", escape(where), "rv-note", href=href, target="_self")
    swatch = tag("i", "", f"rv-swatch rv-{TONES[item.name]}", aria_hidden="true")
    cells = (
        _took(item.seconds),
        percent(item.share, digits=1),
        _gpu_hours(model.gpu_hours(item.seconds)),
        money(model.money(item.seconds), model.currency),
    )
    return tag("tr", tag("th", swatch + name, scope="row") + "".join(tag("td", escape(cell), "rv-number") for cell in cells))


def _gpu_hours(value: float | None) -> str:
    return f"< {number(0.01)}" if value is not None and 0 < value < 0.01 else number(value, digits=3)


def largest(costs: Costs) -> list[str]:
    """Return the three largest wastes as sentences."""
    waste = costs.report.book.waste[:3] if costs.report.book else ()
    return [as_sentence(say(item.told(verbatim(_took(item.seconds))))) for item in waste]


def basis(costs: Costs) -> list[tuple[str, str]]:
    """Return what the numbers rest on: name and sentence."""
    report, model = costs.report, costs.report.model
    found = [(_("Time so far"), say(report.book.source))] if report.book else []
    if report.left is not None:
        clock = len(report.book.notes) if report.book else 0  # these have lines of their own
        found.append((_("Time left"), _("; ").join(map(say, (report.left.source, *report.notes[clock:])))))
        if report.left.if_lasts is not None and report.left.if_returns is not None:
            words = _("{lasts} if it stays as slow, {returns} if it is as fast again").format(
                lasts=duration(report.left.if_lasts), returns=duration(report.left.if_returns)
            )
            found.append((_("While it is slow"), words))
    if report.epoch is not None and not (report.left is not None and report.left.source == report.epoch.text):
        found.append((_("epoch_time"), say(report.epoch.text)))
    names = {"gpus": _("Number of GPUs"), "gpu": _("Kind of GPU"), "price": _("Price"), "energy": _("Energy")}
    found += [(names[name], say(text)) for name, text in model.sources if name in names]
    found += [(_("Clock"), say(note)) for note in (report.book.notes if report.book else ())]
    found.append((_("MFU"), say(costs.throughput.formula)))
    if costs.communication is not None:
        found.append((_("Communication"), say(costs.communication.text)))
    if costs.size is not None:
        words = ngettext(
            "{lines} line and {bytes} bytes a step, {line} bytes a line",
            "{lines} lines and {bytes} bytes a step, {line} bytes a line",
            1 if costs.size.lines_per_step == 1 else 2,
        ).format(
            lines=number(costs.size.lines_per_step, digits=3),
            bytes=number(costs.size.bytes_per_step, digits=3),
            line=number(costs.size.bytes_per_line, digits=3),
        )
        found.append((_("What the log weighs"), words))
    return found


def buys(costs: Costs) -> str:
    """Return what the rest of the run is expected to buy, in a sentence."""
    loss = costs.loss
    if not isinstance(loss, Forecast):
        return _("The final loss can't be foretold: {why}.").format(why=say(loss))
    words = _("Loss {now} now, {final} expected at the end ({low} to {high}).").format(
        now=number(loss.now), final=number(loss.final), low=number(loss.low), high=number(loss.high)
    )
    if costs.gain is not None and loss.now - loss.final < UNFELT * (loss.high - loss.low):
        words += " " + _("What is still to be gained is too small to tell.")
    elif costs.gain is not None:
        words += " " + _("Each further GPU-hour buys {gain}.").format(gain=number(costs.gain, digits=2))
    return words


def to_csv(costs: Costs, run: Run) -> bytes:
    """Return the ledger as CSV: part, seconds, share, GPU-hours, money, currency, step."""
    model, out = costs.report.model, io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["run", "part", "seconds", "share", "gpu_hours", "money", "currency", "step"])
    for item in costs.report.book.items if costs.report.book else ():
        amounts = (model.gpu_hours(item.seconds), model.money(item.seconds), model.currency)
        writer.writerow([run.id, item.name, round(item.seconds, 3), round(item.share, 6), *amounts, item.step])
    return out.getvalue().encode()


def table(found: Sequence[Paid]) -> pd.DataFrame:
    """Return all runs as a table, the dearest first: hours, GPU-hours, money, productive share, largest waste, week."""
    frame = pd.DataFrame([_table_row(one) for one in found])
    return (
        frame.sort_values(["spent", "hours"], ascending=False, na_position="last", ignore_index=True) if len(frame) else frame
    )


def _table_row(one: Paid) -> dict[str, Any]:
    facts, model, seconds = one.facts, one.model, one.facts.elapsed
    return {
        "run": one.run.id,
        "name": one.run.name,
        "week": _week(one),
        "hours": None if seconds is None else seconds / 3600,
        "left": None if one.left is None else one.left / 3600,
        "gpu_hours": None if seconds is None else model.gpu_hours(seconds),
        "spent": None if seconds is None else model.money(seconds),
        "goodput": None if facts.goodput is None else 100 * facts.goodput,
        "waste": say(one.slow.text) if one.slow else _(PARTS[facts.waste]) if facts.waste in PARTS else None,
    }


def _week(one: Paid) -> str:
    """Return the week of the last line by the clock of the log, else that in which the log was brought in, which is said."""
    ended = one.facts.ended
    moment = as_utc(one.run.created) if ended is None else datetime.fromtimestamp(ended, UTC)
    year, week, _day_of_week = moment.astimezone(UTC).isocalendar()
    name = f"{year}-W{week:02d}"
    return name if ended is not None else _("{week} (brought in)").format(week=name)


def weeks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the totals of `table` by week, the latest first."""
    return sums(frame, "week").sort_values("week", ascending=False, ignore_index=True)


def sums(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the totals of `table` by a column: how many runs, of how many GPU-hours are known (`priced`), and the sums."""
    groups = frame.groupby(by, as_index=False)
    counts = groups.agg(runs=("run", "count"), priced=("gpu_hours", "count"))
    return counts.merge(groups[["hours", "gpu_hours", "spent"]].sum(min_count=1), on=by)

"""What the reader said of a log comes back as it was."""

from messages import N_, Text
from storage.keeping.reports import dump_report, load_report
from storage.types import Column, Drift, ParseReport, Unparsed


def test_a_report_with_all_its_parts_comes_back_as_it_was():
    report = ParseReport(
        format="canonical",
        format_title="Canonical",
        encoding="utf-8",
        compression=None,
        bytes=100,
        lines=9,
        records=7,
        eval_records=1,
        ignored=1,
        unparsed_count=1,
        unparsed=(Unparsed(3, "a \udc80 line", Text(N_("Nothing was stored: {error}"), {"error": "x"})),),
        segments=1,
        columns=(Column("loss", "loss:", "", "loss"),),
        config={"model": {"layers": [1, 2]}, "lr": 1e-3},
        notes=(Text(N_("Nothing was stored: {error}"), {"error": "y"}),),
        drifts=(Drift(5, 12, "another form"),),
    )
    assert load_report(dump_report(report)) == report

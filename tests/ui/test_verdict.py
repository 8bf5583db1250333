"""What a card of a finding says of its causes: how each stands, and that a log may tell nothing."""

from analysis.diagnose import Diagnosis
from analysis.findings import Cause, Finding, Severity
from messages import Text
from ui.verdict import banner, proof

UNTOLD = Cause("a", Text("bad batch"))
BACKED = Cause("b", Text("rate <too> high"), 4, (Text("it rose before"),))
DENIED = Cause("c", Text("a resume"), -3, (), (Text("none is told"),))


def finding(*causes: Cause) -> Finding:
    return Finding("spike", Severity.WARNING, 0, 5, 7, Text("Loss jumped"), causes=causes)


def test_each_cause_says_how_it_stands_and_whether_the_log_tells_anything():
    shown = proof(finding(BACKED, UNTOLD, DENIED))
    assert "<b>Likely</b> · rate &lt;too&gt; high<" in shown
    assert "<b>Possible</b> · bad batch (nothing in the log for or against it)" in shown
    assert "<b>Unlikely</b> · a resume<" in shown


def test_the_banner_calls_a_cause_without_evidence_possible():
    one = finding(UNTOLD)
    shown = banner(Diagnosis("watch", one.title, findings=(one,)))
    assert "<dt>Possible</dt>" in shown
    assert "Likely" not in shown

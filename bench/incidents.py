"""What the diagnosis says about real logs whose story is known: every incident found, healthy ones quiet.

Usage: python bench/incidents.py FOLDER [--json bench/out/incidents.json] [--all]

FOLDER holds logs whose names begin with the number of the list below (001-name.log); those that are not there are left
out. An alarm is a finding of severity warning or critical. `--all` prints every alarm, also of logs without expectation.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.diagnose import Diagnosis, diagnose
from analysis.findings import Finding, Severity
from server.service import to_segments
from storage.reader import read_file
from storage.types import UnreadableLog


@dataclass(frozen=True)
class Expected:
    """What is known of a log.

    words: the story; kind: class that must be found, "" if the log must stay quiet; first, last: steps between which the
    finding must begin (lines, if by_line); verdicts: those that are right; info: whether it may be information only.
    A star behind the story: the curve was looked at because of the alarm, which proved true; the others were known before.
    """

    words: str
    kind: str
    first: int = 0
    last: int = 2**60
    verdicts: tuple[str, ...] = ()
    info: bool = False
    by_line: bool = False


LOSS_KINDS = frozenset(
    {
        *("spike", "spike_unrecovered", "spike_cluster", "divergence", "plateau", "oscillation", "dip", "level_shift"),
        *("overfit", "eval_jump", "non_finite", "loss_zero", "initial_loss", "no_learning", "decomposition", "dense_aux"),
        *("aux_imbalance", "aux_share", "lr_anomaly", "field_missing", "format_change", "reward_collapse"),
    }
)
QUIET = ("healthy",)

EXPECTED: dict[str, tuple[Expected, ...]] = {
    "006": (Expected("healthy pretraining, every step printed twice", "", verdicts=QUIET),),
    "007": (Expected("interrupted by hand at step 4,700 of 9,924", "stopped", 4700, 4700, QUIET, info=True),),
    "009": (Expected("interrupted by hand after the first row", "stopped", 100, 100, ("watch",), info=True),),
    "010": (Expected("breaks off after two steps", "stopped", 2, 2, ("watch",), info=True),),
    "012": (
        Expected("loss jumps threefold at step 3", "spike", 3, 3, ("watch", "failed", "sick")),
        Expected("time limit of the job", "stopped", 4, 4),
    ),
    "015": (
        Expected("jumps fourfold at step 3 and settles", "spike", 3, 4, ("sick",)),
        Expected("climbs again from its lowest at step 31", "divergence", 29, 45),
    ),
    "016": (Expected("jumps at step 3 and recovers", "spike", 3, 4, ("watch",)),),
    "020": (Expected("healthy pretraining of 20,000 steps", "", verdicts=QUIET),),
    "021": (Expected("18 lone hard batches", "spike", 3962, 3962, QUIET, info=True),),
    "030": (Expected("rises in step 2 and settles: normal there", "", verdicts=QUIET),),
    "031": (Expected("three runs in one file", "restart", 1, 1, QUIET, info=True),),
    "033": (Expected("resumed from step 30,000", "restart", 30000, 30040, QUIET, info=True),),
    "040": (Expected("fp16 overflows, 139 steps skipped", "non_finite", verdicts=("watch",), info=True),),
    "041": (
        Expected("fp16 overflows of a policy", "non_finite", verdicts=("watch",), info=True),
        Expected("reward at half from step 128 to 175 *", "reward_collapse", 110, 176),
    ),
    "050": (Expected("learned by heart over 50 epochs, no evaluation", "overfit", verdicts=QUIET, info=True),),
    "053": (
        Expected("first launch fails: no weights in the folder", "crash", 4420, 4420, ("healthy", "watch")),
        Expected("learned by heart over 100 epochs", "overfit", info=True),
    ),
    "055": (Expected("breaks off at step 202 of 5,100", "stopped", 202, 202, info=True),),
    "095": (Expected("breaks off after the first step", "stopped", 0, 0, info=True),),
    "096": (Expected("NaN from step 9 to the end", "non_finite", 9, 9, ("sick",)),),
    "100": (Expected("hardly falls, stands at 4.5", "no_learning", verdicts=("watch",)),),
    "102": (Expected("interrupted after the first row", "stopped", 1, 1, ("watch",), info=True),),
    "110": (Expected("policy collapses by step 12: answers of one token", "reward_collapse", 5, 12, ("sick",)),),
    "112": (Expected("fails before the first step", "crash", 138, 269, ("failed",), by_line=True),),
    "133": (Expected("healthy, cut at step 99,400", "", verdicts=QUIET),),
    "135": (Expected("cancelled by the scheduler, no rows", "stopped", 1, 1, ("failed",), by_line=True),),
    "140": (
        Expected("first loss of a million", "initial_loss", 1, 1, ("failed",)),
        Expected("out of memory on five GPUs", "out_of_memory", 10540, 10600, by_line=True),
        Expected("launched again: data set not found", "crash", 14300, 14660, by_line=True),
    ),
    "145": (Expected("fails in an evaluation at epoch 0.97", "crash", 24, 24, ("failed",)),),
    "151": (Expected("false jumps at new epochs: a mean since the epoch began", "spike", info=True),),
    "152": (Expected("regression from epoch 27 on", "spike_unrecovered", 6700, 7100, ("sick",)),),
    "153": (Expected("implausibly low loss by step 100", "dip", 10, 110, ("watch", "sick")),),
    "165": (Expected("GPU nearly idle", "utilisation_low", verdicts=("watch",)),),
    "167": (Expected("healthy, first step compiles", "", verdicts=QUIET),),
    "175": (Expected("time limit of the job after ten epochs", "stopped", 10, 10, ("watch", "failed")),),
    "190": (
        Expected("ten launches in one file", "restart", info=True),
        Expected("tracebacks between them", "crash"),
        Expected("stopped by hand between them", "stopped", info=True),
        Expected("launch 10 begins above a uniform guess, at 13.0 *", "initial_loss", 100, 100),
        Expected("words and bag of words jump in launch 9 and stay *", "spike", 13200, 13200),
    ),
    "200": (Expected("doubled values where lines are missing are no spikes", "", verdicts=QUIET),),
    "205": (Expected("explodes in step 5 of three rows", "spike", 5, 5, ("failed", "sick")),),
    "210": (Expected("healthy loss, another batch size from step 201 on", ""),),
    "221": (Expected("NaN in a quarter of the rows, recovers", "non_finite", 2170, 2190, ("watch",)),),
    "300": (Expected("interrupted by hand", "stopped", 200, 200, ("watch",), info=True),),
    "301": (Expected("interrupted by hand", "stopped", 100, 100, ("watch",), info=True),),
    "307": (Expected("flew apart before its first row: learning rate 0.05", "initial_loss", 100, 100, ("watch", "sick")),),
    "401": (Expected("020 once more, packed", "", verdicts=QUIET),),
    "405": (Expected("007 once more, another encoding", "stopped", 4700, 4700, QUIET, info=True),),
}
HEALTHY = ("302", "303", "304", "305", "306", "308", "309", "310", "311", "312", "313")
EXPECTED |= {number: (Expected("healthy, ten rows", "", verdicts=QUIET),) for number in HEALTHY}


@dataclass(frozen=True)
class Outcome:
    """One line of the table."""

    number: str
    expected: str
    kind: str
    found: bool
    step: int | None
    known_step: int | None
    verdict: str
    verdict_right: bool


def alarms(diagnosis: Diagnosis) -> list[Finding]:
    """Return what a user would be warned of."""
    return [finding for finding in diagnosis.findings if finding.severity is not Severity.INFO]


def outcomes(number: str, diagnosis: Diagnosis) -> Iterator[Outcome]:
    """Yield what became of each expectation of a log."""
    for expected in EXPECTED.get(number, ()):
        right = not expected.verdicts or str(diagnosis.verdict) in expected.verdicts
        if not expected.kind:
            loud = [finding for finding in alarms(diagnosis) if finding.kind in LOSS_KINDS]
            first = loud[0] if loud else None
            step = first.first_step if first else None
            yield Outcome(number, expected.words, first.kind if first else "-", not loud, step, None, diagnosis.verdict, right)
            continue
        hit = next((f for f in diagnosis.findings if f.kind == expected.kind and fits(f, expected)), None)
        known = (hit.first_step, hit.known_step) if hit else (None, None)
        yield Outcome(number, expected.words, expected.kind, hit is not None, *known, diagnosis.verdict, right)


def fits(finding: Finding, expected: Expected) -> bool:
    """Say whether a finding is the expected one."""
    if finding.severity is Severity.INFO and not expected.info:
        return False
    at = finding.first_line if expected.by_line else finding.first_step
    return expected.last == 2**60 or (at is not None and expected.first <= at <= expected.last)


def read(path: Path) -> tuple[Diagnosis, int]:
    """Return the diagnosis of a log and its number of training rows; raises UnreadableLog."""
    result = read_file(path)
    report = result.report
    return diagnose(to_segments(result.rows, result.events, dict(report.config), report.drifts)), report.records


def main() -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    table: list[Outcome] = []
    loud: Counter[str] = Counter()
    rows, start = 0, time.process_time()
    for path in sorted(options.folder.glob("[0-9][0-9][0-9]-*")):
        number = path.name[:3]
        try:
            diagnosis, records = read(path)
        except UnreadableLog as error:
            print(f"{number}  unreadable: {error.code}")
            continue
        rows += records
        loud.update(finding.kind for finding in alarms(diagnosis))
        if options.all:
            for finding in alarms(diagnosis):
                words = finding.title.render()[:100]
                print(f"{number}  {finding.severity:8} {finding.kind:18} {finding.first_step!s:>9}  {words}")
        table += outcomes(number, diagnosis)
    print_table(table)
    found, right = (sum(getattr(item, name) for item in table) for name in ("found", "verdict_right"))
    seconds = time.process_time() - start
    print(f"\n{found} of {len(table)} expectations met, {right} verdicts right; {rows:,} rows, {seconds:.0f} s CPU")
    losses = sum(count for kind, count in loud.items() if kind in LOSS_KINDS)
    print(f"alarms: {dict(loud.most_common())}")
    print(f"of the rules about losses: {losses} = {1e5 * losses / max(rows, 1):.1f} per 100,000 rows")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(item) for item in table], indent=1))


def print_table(table: list[Outcome]) -> None:
    """Print one line an expectation."""
    print(f"{'log':4} {'expected':58} {'class':18} {'found':6} {'step':>8} {'known':>8}  verdict")
    for item in table:
        mark = "yes" if item.found else "NO"
        verdict = item.verdict + ("" if item.verdict_right else "  (WRONG)")
        steps = f"{item.step!s:>8} {item.known_step!s:>8}"
        print(f"{item.number:4} {item.expected[:58]:58} {item.kind:18} {mark:6} {steps}  {verdict}")


if __name__ == "__main__":
    main()

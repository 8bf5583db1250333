"""How far a conclusion reaches: what it holds for, under which conditions, and what the log cannot show."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.diagnose import Diagnosis
from analysis.findings import Finding
from messages import N_
from storage.types import ParseReport, Run
from ui.text import _, number
from ui.verdict import definitions

PROFILES = {"robust": N_("in the run's own noise (robust)"), "articles": N_("fixed numbers of the articles")}
# What changes the meaning of a loss, in the spellings of the usual trainers (without case, `-` and spaces).
CONDITIONS = (
    ("model", "model_name", "model_name_or_path", "model_params", "hidden_size", "num_layers", "depth"),
    ("dataset", "data_path", "dataset_name", "dataset/dataset", "train_data"),
    ("lr", "learning_rate", "opt_learning_rate", "max_lr"),
    ("batch_size", "global_batch_size", "total_batch_size", "train_batch_size", "per_device_train_batch_size"),
    ("max_seq_len", "seq_length", "max_length", "block_size"),
    ("precision", "dtype", "bf16", "fp16"),
    ("world_size", "gpus", "num_gpus", "gpu"),
    ("seed",),
)
ELSEWHERE = N_(
    "A log is one witness. Before you act, look at the machine's own monitor, the gradients by layer and a validation set."
)


def limits(run: Run, report: ParseReport, diagnosis: Diagnosis, finding: Finding | None) -> str:
    """Return the limits of a conclusion as a list of pairs; `finding` None: of the verdict."""
    pairs = [(_("Holds for"), _scope(run, finding)), (_("Judged by"), _thresholds(diagnosis))]
    pairs.append((_("Conditions"), _conditions(report.config) or _("The log prints no settings: unknown")))
    pairs.append((_("Read"), _read(report)))
    if finding is not None and (unseen := _unseen(finding)):
        pairs.append((_("Not in this log"), unseen))
    pairs.append((_("Beyond the log"), _(ELSEWHERE)))
    return definitions(pairs)


def _scope(run: Run, finding: Finding | None) -> str:
    parts = []
    if finding is not None and run.segments > 1:
        parts.append(_("launch {n} of {all}").format(n=number(finding.segment + 1), all=number(run.segments)))
    if run.last_step is not None:
        parts.append(_("steps {first}–{last}").format(first=number(run.first_step), last=number(run.last_step)))
    if finding is not None and finding.known_step is not None:
        parts.append(_("could be told at step {step}").format(step=number(finding.known_step)))
    return " · ".join(parts)


def _thresholds(diagnosis: Diagnosis) -> str:
    return _("thresholds {profile}").format(profile=_(PROFILES.get(diagnosis.profile, diagnosis.profile)))


def _conditions(config: Mapping[str, Any]) -> str:
    plain = {str(key).lower().replace("-", "_").replace(" ", "_"): value for key, value in config.items()}
    found = [next((f"{name} {plain[name]}" for name in names if _printed(plain.get(name))), "") for names in CONDITIONS]
    return " · ".join(part[:80] for part in found if part)


def _printed(value: Any) -> bool:
    return value is not None and not isinstance(value, list | dict)


def _read(report: ParseReport) -> str:
    words = _("records: {records}, lines: {lines}, of which could not be read: {bad}")
    gaps = {"records": number(report.records), "lines": number(report.lines), "bad": number(report.unparsed_count)}
    return words.format(**gaps)


def _unseen(finding: Finding) -> str:
    names: Sequence[str] = list(dict.fromkeys(name for cause in finding.causes for name in cause.unobservable))
    return ", ".join(names)

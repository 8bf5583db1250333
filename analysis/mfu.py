"""How much of the GPUs' peak a run used, and how much of a step went into communication: formulas and assumptions shown.

MFU = tokens a second × FLOPs a token ÷ (GPUs × peak), with FLOPs a token = 6 N + 12 layers × width × sequence: N parameters
(those that a token passes through, of a mixture of experts only the active ones), forward and backward, attention included.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.cost import CostModel
from analysis.machine import number_of, squashed
from analysis.pace import pace
from analysis.segment import Segment
from messages import N_, Text, listed

NOT_KNOWN = N_("MFU can't be told: not known are {names}")
FACTORS = (N_("number of parameters"), N_("number of GPUs"), N_("peak of the GPU"), N_("tokens per second"))
PARAMETERS = (
    "active_params",
    "model_params",
    "num_params",
    "n_params",
    "total_params",
    "parameters",
    "number_of_parameters",
    "trainable_params",
)
SEQUENCE = (
    "train_seq_len",
    "seq_length",
    "max_seq_len",
    "sequence_length",
    "block_size",
    "max_seq_length",
    "cutoff_len",
    "context_length",
    "seq_len",
)
LAYERS = ("num_layers", "n_layer", "num_hidden_layers", "n_layers", "layers", "depth")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
TOKENS_A_STEP = ("train_batch_tokens", "tokens_per_step", "batch_tokens", "tokens_per_batch", "global_batch_tokens")
COMMUNICATION = re.compile(
    r"all[-_ ]?reduce|allreduce|all[-_ ]?gather|reduce[-_ ]?scatter|send|recv|comm|exchange|sync", re.IGNORECASE
)
COMPUTE = re.compile(
    r"^(?:forward|backward|fwd|bwd)(?:[-_](?:compute|inner|backward|forward))?(?:[-_](?:time|ms|s))?$|^optimizer$|^step$",
    re.IGNORECASE,
)


# A timer that holds others, which are counted instead (Megatron, DeepSpeed).
HOLDS = {"forward-backward": {"forward-compute", "backward-compute"}, "backward": {"backward_inner"}, "bwd": {"bwd_inner"}}


@dataclass(frozen=True)
class Throughput:
    """Tokens a second of the whole run, and MFU where parameters, GPUs and peak are known.

    tokens_per_second: mean while running, pauses left out; source: where it comes from. mfu: share of the peak, 0…1, None
    where something is missing; formula: with the numbers put in, or what is missing.
    """

    tokens_per_second: float | None
    source: Text
    mfu: float | None
    formula: Text


@dataclass(frozen=True)
class Communication:
    """Seconds or milliseconds a step in computing and communicating, as the log times them, and the columns they are from."""

    compute: float
    communication: float
    columns: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Return compute : communication, None where none was timed."""
        return self.compute / self.communication if self.communication > 0 else None

    @property
    def text(self) -> Text:
        """Return the ratio in words."""
        share = self.communication / (self.compute + self.communication)
        return Text(N_("communication takes {share:.0%} of the timed part of a step"), {"share": share})


def throughput(segments: Sequence[Segment], model: CostModel) -> Throughput:
    """Return tokens a second and MFU of a run with the GPUs of `model`; what is missing is said."""
    config = {key: value for segment in segments for key, value in squashed(segment.config).items()}
    tokens, source = _tokens(segments, config)
    parameters, gpus, peak = _first(config, PARAMETERS, unit=True), model.gpus, model.peak_tflops
    if not (tokens and parameters and gpus and peak):
        missing = [Text(name) for name, value in zip(FACTORS, (parameters, gpus, peak, tokens), strict=True) if not value]
        return Throughput(tokens, source, None, Text(NOT_KNOWN, {"names": listed(missing)}))
    layers, width, length = _first(config, LAYERS), _first(config, WIDTH), _first(config, SEQUENCE)
    attention = 12 * layers * width * length if layers and width and length else 0.0
    mfu = tokens * (6 * parameters + attention) / (gpus * peak * 1e12)
    gaps = {"tokens": tokens, "parameters": parameters, "attention": attention, "gpus": gpus, "peak": peak}
    template = N_(
        "{tokens:,.0f} tokens/s × (6 × {parameters:.4g} + {attention:.3g}) ÷ ({gpus:,} × {peak:,.0f} TFLOP/s, dense BF16)"
    )
    if not 0 < mfu <= 1:
        return Throughput(
            tokens,
            source,
            None,
            Text(
                N_("MFU can't be told: the formula gives {mfu:.0%}, so one of its numbers is not what it seems"), {"mfu": mfu}
            ),
        )
    return Throughput(tokens, source, mfu, Text(template, gaps))


def communication(segment: Segment) -> Communication | None:
    """Return computing and communicating as the log times them (Megatron, DeepSpeed), None where it does not."""
    sums = {True: 0.0, False: 0.0}
    used = []
    for name, values in _timers(segment).items():
        sums[_talks(name)] += float(np.median(values))
        used.append(name)
    return Communication(sums[False], sums[True], tuple(used)) if sums[True] > 0 and sums[False] > 0 else None


def _timers(segment: Segment) -> dict[str, np.ndarray]:
    """Return the timers of a launch, on lines of their own or beside the loss, without those that hold others."""
    found = {}
    for frame in (segment.telemetry, segment.rows):
        for name in frame.columns:
            if (_talks(name) or COMPUTE.match(name)) and frame[name].dtype.kind == "f":
                values = frame[name].to_numpy()
                values = values[(values >= 0) & (values < 1e9)]
                found.update({name: values} if len(values) else {})
    whole = [name for name, parts in HOLDS.items() if parts <= found.keys()]
    return {name: values for name, values in found.items() if name not in whole}


def _talks(name: str) -> bool:
    return bool(COMMUNICATION.search(name)) and not COMPUTE.match(name)


def _tokens(segments: Sequence[Segment], config: dict[str, Any]) -> tuple[float | None, Text]:
    """Return tokens a second of the last launch that tells: as printed, as counted, or steps × tokens a step."""
    for segment in reversed(segments):
        if segment.has("tokens_per_second"):
            values = segment.values("tokens_per_second")
            values = values[(values > 0) & (values < 1e15)]
            if len(values):
                return float(np.median(values)), Text(N_("tokens per second as printed (median)"))
        known = pace(segment)
        if known is None:
            continue
        running = float(known.running.sum())
        if segment.has("tokens_seen") and running > 0:
            seen = segment.values("tokens_seen")[known.wall.row]
            grew = float(np.nansum(np.maximum(np.diff(seen), 0)))
            seconds = float(known.running[1:].sum())
            if grew > 0 and seconds > 0:
                return grew / seconds, Text(N_("tokens counted by the log ÷ running time"))
        each = _first(config, TOKENS_A_STEP)
        if each and running > 0 and known.wall.steps.sum() > 0:
            return each * float(known.wall.steps.sum()) / running, Text(
                N_("tokens of a step from the configuration ÷ running time")
            )
    return None, Text(N_("the log does not say how many tokens it processed"))


def _first(config: dict[str, Any], names: Sequence[str], *, unit: bool = False) -> float | None:
    return next((value for name in names if (value := number_of(config.get(name), unit=unit))), None)

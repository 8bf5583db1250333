"""How large the model is that a log's configuration declares, and how long its sequences."""

from collections.abc import Mapping
from typing import Any

from analysis.segment import Segment

PARAMETERS = ("model_params", "num_params", "num_parameters", "n_params", "total_params", "all_params", "parameters")
SEQUENCES = ("max_seq_len", "seq_length", "seq_len", "block_size", "max_length", "max_sequence_length", "context_length")
SMALL_PARAMETERS, SHORT_SEQUENCE = 50e6, 128


def may_be_capacity(segment: Segment) -> bool:
    """Say whether a small model is trained on very short sequences: then a plateau may be all it can learn."""
    parameters, length = _declared(segment.config, PARAMETERS), _declared(segment.config, SEQUENCES)
    return parameters is not None and length is not None and parameters <= SMALL_PARAMETERS and length <= SHORT_SEQUENCE


def _declared(config: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for key, value in config.items():
        name = str(key).replace("/", ".").rpartition(".")[2].replace("-", "_").replace(" ", "_").lower()
        if name in names:
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if 0 < number < 1e15:
                return number
    return None

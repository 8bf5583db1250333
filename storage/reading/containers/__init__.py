"""Structured containers inside log files: one module and one class each, all used in the same way.

    reader = JsonLines()
    table = reader.feed(block, first_line)      # whole lines of UTF-8; a pyarrow table or None
    table = reader.finish()                     # what was held back
    reader.problems                             # (line, text, reason) of lines that should have been rows
    reader.units                                # column -> unit of numbers printed as text with a unit
    reader.state(), reader.restore(state)       # to go on in another process; state() is None where that cannot be

A table has `line` (int64, 1-based) and columns under their printed names: float64, or text where the log prints text;
nested JSON names are joined with `/`; a fraction `"10/438"` gives `name` and `name_total`, under `a/b` it gives `a` and
`b`. Durations in text are seconds and sizes bytes, unless the name itself says the unit. HfDict and TrainerState add
`kind` (train, eval, summary), `step` and `total_steps`; Keras, Mllog, NvidiaSmi and TfEvents add `kind`. TfEvents takes
the bytes of a binary file instead of lines, so it is not among CONTAINERS. `score(sample)` of 0.5 or more means: it is
such a container.
"""

from storage.reading.containers.boxes import Boxes
from storage.reading.containers.delimited import Delimited
from storage.reading.containers.gpu_rows import GpuRows
from storage.reading.containers.headed import Headed
from storage.reading.containers.hf_dict import HfDict
from storage.reading.containers.json_blocks import JsonBlocks
from storage.reading.containers.json_columns import JsonColumns
from storage.reading.containers.jsonl import JsonLines
from storage.reading.containers.keras import Keras
from storage.reading.containers.markdown import Markdown
from storage.reading.containers.mllog import Mllog
from storage.reading.containers.nvidia_smi import NvidiaSmi
from storage.reading.containers.stanzas import Stanzas
from storage.reading.containers.tfevents import TfEvents
from storage.reading.containers.trainer_state import TrainerState

_DOCUMENTS = (TrainerState, JsonColumns)
CONTAINERS = (
    *_DOCUMENTS,
    JsonLines,
    Delimited,
    HfDict,
    Mllog,
    Boxes,
    NvidiaSmi,
    Keras,
    Markdown,
    GpuRows,
    JsonBlocks,
    Stanzas,
    Headed,
)

__all__ = [
    "CONTAINERS", "Boxes", "Delimited", "GpuRows", "Headed", "HfDict", "JsonBlocks", "JsonColumns", "JsonLines", "Keras",
    "Markdown", "Mllog", "NvidiaSmi", "Stanzas", "TfEvents", "TrainerState",
]  # fmt: skip

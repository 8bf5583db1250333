"""TensorBoard's Event message, read by protobuf's own parser; only the fields that hold a scalar are declared.

Source: event.proto, summary.proto and tensor.proto of TensorFlow. The parser passes over every other field.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

_FIELD = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
_MESSAGES: dict[str, tuple[tuple[str, int, int, Any, str], ...]] = {
    "Tensor": (
        ("dtype", 1, _ONE, _FIELD.TYPE_INT32, ""),
        ("content", 4, _ONE, _FIELD.TYPE_BYTES, ""),
        ("floats", 5, _MANY, _FIELD.TYPE_FLOAT, ""),
        ("doubles", 6, _MANY, _FIELD.TYPE_DOUBLE, ""),
        ("ints", 7, _MANY, _FIELD.TYPE_INT32, ""),
        ("longs", 10, _MANY, _FIELD.TYPE_INT64, ""),
    ),
    "Value": (
        ("tag", 1, _ONE, _FIELD.TYPE_BYTES, ""),  # bytes: a tag that is no UTF-8 must not lose the record
        ("simple", 2, _ONE, _FIELD.TYPE_FLOAT, ""),
        ("tensor", 8, _ONE, _FIELD.TYPE_MESSAGE, ".tb.Tensor"),
    ),
    "Summary": (("value", 1, _MANY, _FIELD.TYPE_MESSAGE, ".tb.Value"),),
    "Event": (
        ("wall_time", 1, _ONE, _FIELD.TYPE_DOUBLE, ""),
        ("step", 2, _ONE, _FIELD.TYPE_INT64, ""),
        ("summary", 5, _ONE, _FIELD.TYPE_MESSAGE, ".tb.Summary"),
    ),
}
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # TensorFlow's DataType of a scalar tensor


def scalars(message: bytes) -> Iterator[tuple[int, float, str, float]]:
    """Yield (step, seconds since 1970, tag, value) of the scalars of one Event; raises ValueError for what is none."""
    try:
        event = _event()()
        event.ParseFromString(message)
    except DecodeError as error:
        raise ValueError("no Event message") from error
    for value in event.summary.value:
        number = value.simple if value.HasField("simple") else _number(value.tensor) if value.HasField("tensor") else None
        if number is not None and value.tag:
            yield event.step, event.wall_time, value.tag.decode("utf-8", "replace")[:120], float(number)


def _number(tensor: Any) -> float | None:
    """Return the number of a tensor that holds exactly one, None for anything else."""
    given = [*tensor.floats[:2], *tensor.doubles[:2], *tensor.ints[:2], *tensor.longs[:2]]
    if given:
        return given[0] if len(given) == 1 else None
    form = _CONTENT.get(tensor.dtype, "")
    return struct.unpack(form, tensor.content)[0] if form and len(tensor.content) == struct.calcsize(form) else None


@cache
def _event() -> Any:
    """Return the class of the Event message, in a pool of its own: nothing clashes with TensorFlow's definitions."""
    file = descriptor_pb2.FileDescriptorProto(name="tb.proto", package="tb", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, label, kind, inner in fields:
            message.field.add(name=field, number=number, label=label, type=kind, type_name=inner or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tb.Event"))

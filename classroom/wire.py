"""Plain values as one line of JSON and back: numbers, text, containers, arrays as bytes. No pickles, no code.

Both ends use it: the judge, and the process in which a student's functions run. What comes from there is read as data
only: a message that lies about its sizes is refused, and an object of another kind arrives as an empty thing with the
name of its type.
"""

import base64
import json
import sys
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

LONGEST = 64_000_000  # bytes a message
DEEPEST = 20  # containers within containers
KINDS = "biuf"  # booleans and numbers


class Refused(ValueError):
    """Raised for a message, or a value, that does not cross."""


@cache
def records() -> dict[str, type]:
    """Return the classes that cross as their fields; a namespace is what the museum's bugs return for a trace."""
    from attnlib import AttentionResult, AttentionTrace, MultiHeadWeights
    from attnlib.exercises.long_sequences import Blocks

    kinds = (AttentionResult, AttentionTrace, MultiHeadWeights, Blocks, SimpleNamespace)
    return {kind.__name__: kind for kind in kinds}


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of such a class; functions among them do not cross."""
    fields = record._asdict() if isinstance(record, tuple) else vars(record)
    return {name: value for name, value in fields.items() if not callable(value)}


def make_record(kind: type, fields: dict[str, Any]) -> Any:
    if kind.__name__ == "Blocks":  # its fields are not what it is made from
        record = kind.__new__(kind)
        vars(record).update(fields)
        return record
    if kind is SimpleNamespace:
        fields["shapes"] = lambda: {name: tuple(np.shape(x)) for name, x in fields.items() if name != "shapes"}
    return kind(**fields)


def dump(value: Any, name_callable: Callable[[Callable], int] | None = None) -> Any:
    """Return a value as what JSON can hold; `name_callable` gives a number to each function in it."""
    if value is None or isinstance(value, bool | str):
        return value if value is None or isinstance(value, bool) else {"text": str(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _dump_array(value)
    if isinstance(value, int):
        return {"int": str(value) if value.bit_length() < 10_000 else "0"}
    if isinstance(value, float):
        return {"float": repr(float(value))}
    if value is Ellipsis:
        return {"dots": True}
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return {"tensor": _dump_array(value.detach().cpu().numpy())}
    for name, kind in records().items():
        if type(value) is kind:
            fields = {key: dump(x, name_callable) for key, x in fields_of(value).items()}
            return {"record": name, "fields": fields}
    if isinstance(value, dict):
        return {"dict": [[dump(key, name_callable), dump(x, name_callable)] for key, x in value.items()]}
    if isinstance(value, tuple | list | range):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [dump(x, name_callable) for x in value]}
    if name_callable and callable(value):
        return {"call": name_callable(value)}
    if hasattr(value, "__array__"):
        return dump(np.asarray(value), name_callable)
    return {"other": type(value).__name__}


def _dump_array(array: Any) -> dict:
    scalar = isinstance(array, np.generic)
    array = np.array(array, subok=False, order="C")
    if array.dtype.kind not in KINDS:
        return {"other": f"array of {array.dtype.name}"}
    array = array.astype(array.dtype.newbyteorder("<"))
    data = base64.b64encode(array.tobytes()).decode()
    return {"array": data, "dtype": array.dtype.str, "shape": list(array.shape), "scalar": scalar}


def load(message: Any, callables: Callable[[int], Callable] | None = None, depth: int = 0) -> Any:
    """Return the value of a message; `callables` gives the function of a number. Raises `Refused`."""
    if message is None or isinstance(message, bool):
        return message
    if depth > DEEPEST or not isinstance(message, dict):
        raise Refused("no message of this kind")
    try:
        return _load(message, callables, depth + 1)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None


def _load(message: dict, callables: Callable | None, depth: int) -> Any:
    if "array" in message:
        return _load_array(message)
    if "text" in message:
        return str(message["text"])
    if "int" in message:
        return int(message["int"])
    if "float" in message:
        return float(message["float"])
    if "dots" in message:
        return Ellipsis
    if "tensor" in message:
        import torch

        return torch.from_numpy(_load_array(message["tensor"]))
    if "record" in message:
        fields = {str(key): load(x, callables, depth) for key, x in message["fields"].items()}
        return make_record(records()[message["record"]], fields)
    if "dict" in message:
        return {load(key, callables, depth): load(x, callables, depth) for key, x in message["dict"]}
    if "tuple" in message:
        return tuple(load(x, callables, depth) for x in message["tuple"])
    if "list" in message:
        return [load(x, callables, depth) for x in message["list"]]
    if "call" in message and callables:
        return callables(int(message["call"]))
    return type(name_of(message.get("other")), (), {})()


def _load_array(message: dict) -> Any:
    data, dtype = base64.b64decode(message["array"], validate=True), np.dtype(str(message["dtype"]))
    shape = tuple(int(size) for size in message["shape"])
    if dtype.kind not in KINDS or min(shape, default=0) < 0:
        raise ValueError("no array of numbers")
    array = np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    return array[()] if message.get("scalar") and not shape else array


def name_of(kind: Any) -> str:
    """Return the name of a type as it may stand in a message."""
    return "".join(c for c in str(kind)[:40] if c.isprintable()) or "object"


def line(message: Any) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(message).encode() + b"\n"


def parse(data: bytes) -> dict:
    """Return a message as it was received. Raises `Refused`."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(f"no message: {type(error).__name__}") from None
    if not isinstance(message, dict):
        raise Refused("no message")
    return message

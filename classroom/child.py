"""The process in which a student's functions run: `python -I child.py READ WRITE LIMITS`.

It takes requests from one pipe and answers on another: load these cells; call this function with these values. All that
it says is taken as data, since the student's code could say anything in its place.
"""

import builtins
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # -I leaves out the folder of this file
import confine
import wire

sys.path.pop(0)

SYSTEM = [
    "/usr",
    "/lib",
    "/lib64",
    "/dev/null",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
]
NAMESPACE: dict[str, Any] = {"__name__": "__main__", "display": print, "get_ipython": lambda: None}


def main(read: int, write: int, limits: dict) -> None:
    requests, answers = os.fdopen(read, "rb"), os.fdopen(write, "wb")

    asked = 0

    def answer(message: dict) -> None:
        answers.write(wire.line({"to": asked, **message}))
        answers.flush()

    def listen() -> dict:
        data = requests.readline()
        if not data:
            os._exit(0)  # the judge has gone
        return wire.parse(data)

    try:
        closed = prepare(limits)
    except BaseException as error:
        answer({"failed": f"{type(error).__name__}: {error}"})
        return
    answer({"ready": True, "closed": closed})
    while True:
        request = listen()
        asked = request["number"]
        if "cells" in request:
            load_cells(request["cells"], answer)
        elif "describe" in request:
            answer(describe(NAMESPACE.get(request["describe"])))
        elif "call" in request:
            answer(call(request, answer, listen))


def prepare(limits: dict) -> bool:
    """Import what the cells need, then close the doors."""
    import numpy  # noqa: F401

    import attnlib.exercises

    exec(limits["setup"], NAMESPACE)
    own = [sys.prefix, sys.base_prefix, str(Path(attnlib.__file__).parent)]
    readable = {*own, *map(os.path.realpath, own), *SYSTEM}
    closed = limits["close"] and confine.close_files(sorted(readable), str(Path.cwd()))
    confine.leave_root()
    confine.limit(limits["memory"], limits["cpu"], limits["file_size"])
    return closed


def load_cells(cells: list, answer: Any) -> None:
    """Run the cells in order, each whatever became of the others; tell which one runs, and which raised."""
    for number, source in cells:
        answer({"loading": number})
        try:
            exec(compile(source, f"cell {number}", "exec"), NAMESPACE)
        except BaseException as error:
            answer({"cell": number, "raised": sentence(error)})
    answer({"loaded": True})


def describe(value: Any) -> dict:
    """Say what a name stands for: a function, with its parameters, and whether it is one of attnlib's."""
    if not callable(value):
        return {"callable": False, "kind": wire.name_of(type(value).__name__), "missing": value is None}
    home = str(getattr(value, "__module__", None) or "")
    own = getattr(value, "__name__", "function") if home.split(".")[0] == "attnlib" else None
    try:
        parameters = inspect.signature(value).parameters.values()
        told = [[p.name, int(p.kind), p.default is not p.empty] for p in parameters]
    except (TypeError, ValueError):
        told = None
    return {"callable": True, "own": own and str(own), "parameters": told}


def call(request: dict, answer: Any, listen: Any) -> dict:
    """Call a function; its result, the arguments if it changed them, or what it raised."""

    def remote(number: int) -> Any:
        def implementation(*arguments: Any, **options: Any) -> Any:
            packed = {"arguments": wire.dump(arguments), "options": wire.dump(options)}
            answer({"callback": number, **packed})
            reply = listen()
            if "raised" in reply:
                name, text = reply["raised"]
                kind = getattr(builtins, name, Exception)
                raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else Exception)(text)
            return wire.load(reply["result"])

        return implementation

    try:
        arguments = wire.load(request["arguments"], remote)
        before = json.dumps(request["arguments"])
        result = wire.dump(NAMESPACE[request["call"]](*arguments))
        numbers = iter(range(1_000_000))
        after = wire.dump(arguments, lambda value: next(numbers))
        return {"result": result, "changed": after if json.dumps(after) != before else None}
    except BaseException as error:
        return {"raised": sentence(error)}


def sentence(error: BaseException) -> list[str]:
    try:
        return [type(error).__name__, str(error)[:500]]
    except BaseException:
        return [type(error).__name__, ""]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))

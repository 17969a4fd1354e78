"""The judge's end of the pipe: starts the untrusted process, asks it, and ends it with all that it started."""

import builtins
import ctypes
import inspect
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from classroom import confine, wire

CHILD = Path(__file__).with_name("child.py")
SUBREAPER = 36
adopting = False
MOST_NUMBERS, LONGEST_AXIS = 50_000, 256  # of what a student's code may hand to a function of the judge


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds an answer, seconds of CPU, bytes beyond what Python holds, bytes a file."""

    seconds: float = 20
    cpu: float = 60
    memory: int = 1_000_000_000
    file_size: int = 10_000_000
    close: bool = True  # the file system too, where the kernel can


class Ended(Exception):
    """Raised when the untrusted process is gone, or was ended; says why."""


@dataclass
class Sandbox:
    """One untrusted process, with a folder of its own; `with Sandbox(...) as sandbox`."""

    limits: Limits
    setup: str = ""
    closed: bool = False
    why_ended: str = ""
    process: subprocess.Popen = field(init=False)

    def __enter__(self) -> "Sandbox":
        self.folder = tempfile.mkdtemp(prefix="attention-")
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()
        self.pending = b""
        self.asked = 0
        if os.geteuid() == 0:
            os.chown(self.folder, confine.NOBODY, confine.NOBODY)
        options = json.dumps({**asdict(self.limits), "setup": self.setup})
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(CHILD), str(to_child), str(from_child), options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(to_child, from_child),
            cwd=self.folder,
            env=clean_environment(self.folder),
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            ready = self.listen(time.monotonic() + 60)
        except Ended as error:
            ready = {"failed": str(error)}
        if "ready" not in ready:
            self.__exit__()
            raise RuntimeError(f"The process for students' code does not start ({ready.get('failed')}).")
        self.closed = bool(ready.get("closed"))
        return self

    def __exit__(self, *_: object) -> None:
        self.end("it was over")
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, cells: list[tuple[int, str]]) -> tuple[dict[int, str], int | None]:
        """Run cells; return what each that failed raised, and the number of the one in which the process ended."""
        deadline = time.monotonic() + self.limits.seconds
        failures: dict[int, str] = {}
        running = None
        try:
            self.ask({"cells": cells})
            while True:
                message = self.listen(deadline)
                if "loaded" in message:
                    return failures, None
                running = message.get("loading", running)
                if "raised" in message:
                    failures[message.get("cell")] = ": ".join(map(str, message["raised"]))
        except Ended as error:
            failures[running] = str(error)
            return failures, running

    def function(self, name: str) -> "Remote | None":
        """Return a stand-in for the student's function of this name; None if there is none."""
        self.ask({"describe": name})
        told = self.listen(time.monotonic() + self.limits.seconds)
        if told.get("missing"):
            return None
        return Remote(self, name, told) if told.get("callable") else type(wire.name_of(told.get("kind")), (), {})()

    def call(self, name: str, arguments: tuple) -> Any:
        """Return what a function of the student returns; raise what it raised, under the same name."""
        functions: list[Callable] = []
        deadline = time.monotonic() + self.limits.seconds
        self.ask({"call": name, "arguments": wire.dump(arguments, lambda f: functions.append(f) or len(functions) - 1)})
        while True:
            message = self.listen(deadline)
            try:
                if "callback" in message:
                    self.send(answer_callback(functions, message))
                    continue
                if "raised" in message:
                    raise named(*map(str, message["raised"][:2]))
                if message.get("changed"):
                    copy_back(arguments, wire.load(message["changed"], lambda number: None))
                return wire.load(message["result"])
            except (wire.Refused, KeyError, TypeError) as error:
                raise Ended(f"what came back is no plain value: {error}") from None

    def ask(self, question: dict) -> None:
        """Send a question with a number, which each answer to it repeats."""
        self.asked += 1
        self.send({"number": self.asked, **question})

    def send(self, message: dict) -> None:
        if self.why_ended:
            raise Ended(self.why_ended)
        try:
            data = memoryview(wire.line(message))
            deadline = time.monotonic() + self.limits.seconds
            os.set_blocking(self.write, False)
            while data:
                if not select.select([], [self.write], [], max(0, deadline - time.monotonic()))[1]:
                    self.stop(f"no answer within {self.limits.seconds:g} s: an endless loop?")
                data = data[os.write(self.write, data) :]
        except BrokenPipeError:
            self.stop(self.epitaph())

    def listen(self, deadline: float) -> dict:
        """Return the next message. Raises `Ended` if none comes in time, or what comes is none."""
        if self.why_ended:
            raise Ended(self.why_ended)
        parts = [self.pending]
        length = len(self.pending)
        while b"\n" not in parts[-1]:
            if not select.select([self.read], [], [], max(0, deadline - time.monotonic()))[0]:
                self.stop(f"no answer within {self.limits.seconds:g} s: an endless loop?")
            parts.append(os.read(self.read, 1 << 20))
            length += len(parts[-1])
            if not parts[-1]:
                self.stop(self.epitaph())
            if length > wire.LONGEST:
                self.stop(f"a result of more than {wire.LONGEST // 10**6} MB")
        message, _, self.pending = b"".join(parts).partition(b"\n")
        try:
            answer = wire.parse(message)
        except wire.Refused:
            answer = {}
        if answer.get("to") != self.asked:
            self.stop("what came back is no answer: something wrote into the pipe of the grader")
        return answer

    def epitaph(self) -> str:
        """Say why a process that has gone went."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        reasons = {
            -signal.SIGXCPU: f"more than {self.limits.cpu:g} s of computing time",
            -signal.SIGKILL: f"killed: more than {self.limits.cpu:g} s of computing time, or out of memory",
            -signal.SIGSEGV: "Python crashed, perhaps out of memory",
        }
        return reasons.get(code, f"the code ended its process (exit code {code})")

    def stop(self, why: str) -> None:
        self.end(why)
        raise Ended(why)

    def end(self, why: str) -> None:
        """End the process, its session, and whatever it started that left the session."""
        self.why_ended = self.why_ended or why
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        end_orphans()


@dataclass(frozen=True)
class Remote:
    """A student's function as the judge calls it: the values go to the untrusted process, plain values come back."""

    sandbox: Sandbox
    name: str
    told: dict

    def __call__(self, *arguments: Any) -> Any:
        return self.sandbox.call(self.name, arguments)

    @property
    def own(self) -> str | None:
        """The name of attnlib's function, if it is one."""
        return self.told.get("own")

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = list(inspect._ParameterKind)
        try:
            return inspect.Signature(
                inspect.Parameter(str(name), kinds[kind], default=None if optional else inspect.Parameter.empty)
                for name, kind, optional in self.told["parameters"]
            )
        except (TypeError, ValueError, IndexError):
            return inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)])


def clean_environment(folder: str) -> dict[str, str]:
    """Return what the untrusted process is told of the world."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    own = {"HOME": folder, "TMPDIR": folder, "MPLCONFIGDIR": folder, "MPLBACKEND": "Agg"}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **own, **dict.fromkeys(threads, "1")}


def named(kind: str, text: str) -> Exception:
    """Return an exception of this name, so that a message reads as in the student's own notebook."""
    return type(wire.name_of(kind), (Exception,), {})(text)


def answer_callback(functions: list[Callable], message: dict) -> dict:
    """Call a function of the judge for the student's code, with arguments of a modest size."""
    try:
        arguments, options = wire.load(message["arguments"]), wire.load(message["options"])
        sizes = [array.shape for array in arrays_in([arguments, options])]
        if max((axis for shape in sizes for axis in shape), default=0) > LONGEST_AXIS or (
            sum(int(np.prod(shape)) for shape in sizes) > MOST_NUMBERS
        ):
            raise ValueError(f"the check takes arrays of at most {MOST_NUMBERS} numbers, no axis over {LONGEST_AXIS}")
        with np.errstate(all="ignore"):
            return {"result": wire.dump(functions[int(message["callback"])](*arguments, **options))}
    except Exception as error:
        kind = type(error).__name__
        return {"raised": [kind if hasattr(builtins, kind) else "ValueError", str(error)[:500]]}


def arrays_in(value: Any) -> list[np.ndarray]:
    """Return the arrays in a value, however deep."""
    if isinstance(value, np.ndarray):
        return [value]
    if type(value) in wire.records().values():
        value = wire.fields_of(value)
    if isinstance(value, dict):
        value = list(value.values())
    return [array for x in value for array in arrays_in(x)] if isinstance(value, tuple | list) else []


def copy_back(arguments: Any, changed: Any) -> None:
    """Let the judge's arguments be changed as the student's function changed its own."""
    if isinstance(arguments, np.ndarray):
        if isinstance(changed, np.ndarray) and changed.shape == arguments.shape:
            np.copyto(arguments, changed, casting="unsafe")
    elif hasattr(arguments, "copy_") and hasattr(changed, "shape") and changed.shape == arguments.shape:
        arguments.copy_(changed)
    elif type(arguments) in wire.records().values() and type(changed) is type(arguments):
        copy_back(list(wire.fields_of(arguments).values()), list(wire.fields_of(changed).values()))
    elif isinstance(arguments, dict) and isinstance(changed, dict):
        arguments.clear()
        arguments.update(changed)
    elif isinstance(arguments, tuple | list) and isinstance(changed, tuple | list):
        for own, other in zip(arguments, changed, strict=False):
            copy_back(own, other)


def adopt_orphans() -> None:
    """Make this process, which grades one submission, the parent of all below it that lose theirs (Linux)."""
    global adopting
    adopting = sys.platform == "linux" and ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) == 0


def end_orphans() -> None:
    """End what a student's code started and left behind: once its own process has ended, all that is below this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while adopting and (found := children.read_text("ascii").split()):
        for child in map(int, found):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

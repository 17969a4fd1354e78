"""What crosses to a student's process and back arrives as it was; what lies or is no plain value is refused."""

import base64

import numpy as np
import pytest
import torch

from attnlib import MultiHeadWeights, attention, multi_head_attention
from attnlib.exercises import CATALOGUE
from classroom import wire
from classroom.sandbox import Limits, Sandbox, answer_callback

RNG = np.random.default_rng(0)
WEIGHTS = MultiHeadWeights.random(12, 3, seed=0)
PLAIN = {
    "nothing": None,
    "yes": True,
    "whole": -(10**30),
    "number": float("-inf"),
    "text": "注意力 — “attention”",
    "dots": ...,
    "numpy number": np.float32(0.1),
    "0-d array": np.array(3),
    "booleans": RNG.random((2, 3)) > 0.5,
    "half": RNG.normal(size=(2, 3)).astype(np.float16),
    "view": RNG.normal(size=(4, 6))[::2, ::-1].T,
    "empty": np.zeros((0, 3)),
    "big-endian": np.arange(3, dtype=">i4"),
    "tensor": torch.arange(6.0).reshape(2, 3).t(),
    "containers": {"X": (2, 5), 3: [np.arange(2), (None, {"a": np.eye(2)})]},
    "result": attention(np.eye(2), np.eye(2), np.eye(2)),
}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype.newbyteorder("=") == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def across(value):
    return wire.load(wire.parse(wire.line({"value": wire.dump(value)}))["value"])


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values_arrive_as_they_were(name):
    assert same(PLAIN[name], across(PLAIN[name]))


def test_weights_and_traces_arrive_with_their_methods():
    X = RNG.normal(size=(2, 5, 12))
    weights, trace = across(WEIGHTS), multi_head_attention(X, WEIGHTS)
    assert np.array_equal(multi_head_attention(X, weights).output, trace.output)
    assert across(trace).shapes() == trace.shapes()


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_argument_of_every_exercise_crosses(name):
    exercise = CATALOGUE[name]
    for case in exercise.cases(np.random.default_rng(1)):
        for argument in map(exercise.convert, case):
            functions = []
            message = wire.dump(argument, lambda f, functions=functions: functions.append(f) or 0)
            assert "other" not in message
            arrived = wire.load(message, lambda number, functions=functions: functions[0])
            assert arrived == argument if type(argument).__name__ == "Blocks" else same(argument, arrived)


class Liar(np.ndarray):
    def __eq__(self, other):
        return True


def test_objects_arrive_as_data_or_not_at_all():
    assert type(across(np.zeros(2).view(Liar))) is np.ndarray
    assert type(across(object())).__name__ == "object"
    assert across(np.array([object()])) is not None  # an empty thing: no array, and no object of the student's


DATA = base64.b64encode(bytes(16)).decode()
LIES = {
    "too few bytes": {"array": DATA, "dtype": "<f8", "shape": [3]},
    "huge": {"array": DATA, "dtype": "<f8", "shape": [10**12]},
    "negative": {"array": DATA, "dtype": "<f8", "shape": [-1]},
    "objects": {"array": DATA, "dtype": "|O", "shape": [2]},
    "fields": {"array": DATA, "dtype": "V16", "shape": [1]},
    "no base64": {"array": "§", "dtype": "<f8", "shape": [2]},
    "class": {"record": "Popen", "fields": {}},
    "fields of a class": {"record": "MultiHeadWeights", "fields": {"rm": {"int": "1"}}},
    "unhashable": {"dict": [[{"list": []}, None]]},
    "no number": {"int": "x"},
    "list": ["x"],
    "deep": None,
}
for _ in range(50):
    LIES["deep"] = {"list": [LIES["deep"]]}


@pytest.mark.parametrize("name", LIES)
def test_messages_that_lie_are_refused(name):
    with pytest.raises(wire.Refused):
        wire.load(LIES[name])


@pytest.mark.parametrize("line", [b"", b"\xff", b"[]", b"[" * 100_000, b"{"])
def test_what_is_no_message_is_refused(line):
    with pytest.raises(wire.Refused):
        wire.parse(line)


def test_the_judges_functions_take_arrays_of_a_modest_size_only():
    def attend(X):
        return X.sum()

    def ask(X):
        return answer_callback([attend], {"callback": 0, "arguments": wire.dump((X,)), "options": wire.dump({})})

    assert wire.load(ask(np.ones((2, 3)))["result"]) == 6
    assert "at most" in ask(np.ones((1, 300, 2)))["raised"][1]
    assert "at most" in ask(np.ones((250, 250)))["raised"][1]
    assert ask(object())["raised"][0] in ("AttributeError", "ValueError")


def test_a_process_keeps_nothing_of_the_teachers_environment(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_TEACHER", "42")
    code = "import os\n\ndef look():\n    return [os.environ.get('SECRET_OF_THE_TEACHER'), os.getcwd(), os.listdir()]"
    with Sandbox(Limits(seconds=30)) as sandbox:
        assert sandbox.load([(1, code)]) == ({}, None)
        secret, folder, files = sandbox.function("look")()
        assert (secret, folder, files) == (None, sandbox.folder, [])

"""Every catalogued mistake is recognised by its own name, every right answer passes, garbage is refused kindly."""

import numpy as np
import pytest
import torch

from attnlib import exercises
from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge

EVERY_MISTAKE = [(name, mistake) for name, exercise in CATALOGUE.items() for mistake in exercise.mistakes]


@pytest.mark.parametrize(("name", "mistake"), EVERY_MISTAKE, ids=[f"{name}: {m.name}" for name, m in EVERY_MISTAKE])
def test_mistake_is_recognised_by_its_name(name, mistake):
    result = judge(CATALOGUE[name], mistake.function)
    assert not result
    assert result.mistake == mistake.name
    assert mistake.hint in result.message


@pytest.mark.parametrize("name", CATALOGUE)
def test_right_answer_passes(name):
    exercise = CATALOGUE[name]
    result = judge(exercise, lambda *arguments: exercise.reference(*arguments))
    assert result, result.message
    assert result.mistake is None


@pytest.mark.parametrize("name", CATALOGUE)
def test_check_prints_and_returns(name, capsys):
    result = getattr(exercises, f"check_{name}")(lambda *arguments: None)
    assert capsys.readouterr().out.strip() == result.message
    assert not result


@pytest.mark.parametrize("name", CATALOGUE)
def test_own_function_is_declined_with_a_smile(name):
    for own in CATALOGUE[name].own:
        result = judge(CATALOGUE[name], own)
        assert not result
        assert result.message.startswith("Nice try")


class Liar(np.ndarray):
    """An array that claims to equal everything."""

    def __eq__(self, other):
        return True


def boom(*arguments):
    raise RuntimeError("boom")


def leave(*arguments):
    raise SystemExit


def interrupted(*arguments):
    raise KeyboardInterrupt


def spoil(*arguments):
    for x in arguments:
        if isinstance(x, np.ndarray):
            x[...] = 0
    return np.zeros((2, 2))


GARBAGE = {
    "no attempt": lambda *arguments: None,
    "dots": lambda *arguments: ...,
    "raises": boom,
    "exits": leave,
    "interrupts": interrupted,
    "text": lambda *arguments: "0.5",
    "ragged": lambda *arguments: [[1], [1, 2]],
    "dict": lambda *arguments: {"A": 1},
    "NaN": lambda *arguments: np.full((3, 3), np.nan),
    "liar": lambda *arguments: np.zeros((1, 1)).view(Liar),
    "a number": lambda *arguments: 1.0,
    "complex": lambda *arguments: np.ones((2, 2)) * 1j,
    "wrong arguments": lambda: 1,
    "spoils its input": spoil,
    "not a function": np.ones((2, 2)),
    "a class": object,
    "None": None,
}


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_refused_kindly(name, kind):
    result = judge(CATALOGUE[name], GARBAGE[kind])
    assert not result
    assert result.mistake is None
    assert result.message.startswith("Not yet: ")


def test_nothing_came_back():
    assert "forgotten return" in judge(CATALOGUE["softmax"], lambda S: None).message


def test_nothing_came_back_for_some_inputs_only():
    right = CATALOGUE["rotation"].reference
    message = judge(CATALOGUE["rotation"], lambda delta, d: right(delta, d) if delta >= 0 else None).message
    assert "on delta = -2, d_model = 8 nothing came back, elsewhere something did" in message


@pytest.mark.parametrize("name", ["sinusoidal", "rotation", "factor_form", "softmax", "jacobian", "contributions"])
@pytest.mark.parametrize("kind", [np.float32, torch.float64, torch.float32])
def test_a_right_answer_passes_in_another_precision_and_as_a_tensor(name, kind):
    def convert(x):
        return torch.tensor(x, dtype=kind) if isinstance(kind, torch.dtype) else x.astype(kind)

    def answer(*arguments):
        right = CATALOGUE[name].reference(*arguments)
        return tuple(map(convert, right)) if isinstance(right, tuple) else convert(right)

    result = judge(CATALOGUE[name], answer)
    assert result, result.message


def test_a_small_error_is_called_small():
    result = judge(CATALOGUE["jacobian"], lambda s: CATALOGUE["jacobian"].reference(s) + 1e-7)
    assert not result
    assert "nearly right, off by up to 1e-07" in result.message


def test_one_number_is_asked_for_in_words():
    assert (
        "has shape [3], but should be one number" in judge(CATALOGUE["variance_slope"], lambda *case: [1, 2, 3]).message
    )


def test_exception_is_quoted_with_the_shapes_that_caused_it():
    assert "S [2, 3] your function raised RuntimeError: boom" in judge(CATALOGUE["softmax"], boom).message


def test_hints_do_not_give_the_answer_away():
    """No message quotes a value of the expected result (fault B27)."""
    exercise = CATALOGUE["softmax"]
    expected = exercise.reference(*exercise.cases(np.random.default_rng(0))[0])
    for mistake in exercise.mistakes:
        message = judge(exercise, mistake.function).message
        assert not any(f"{x:.3f}" in message for x in expected.ravel())


def test_result_is_true_only_when_right():
    assert bool(exercises.CheckResult(True, "Right")) is True
    assert bool(exercises.CheckResult(False, "Not yet", "overflow")) is False


def test_a_look_at_a_wrong_result_warns_nobody(recwarn):
    judge(CATALOGUE["masked_softmax"], lambda S, mask: np.where(mask, S, -np.inf).astype(S.dtype))
    assert not recwarn.list

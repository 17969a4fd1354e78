"""The checks of chapter 1 accept what is right in another form, and see what students do beside the catalogue."""

import numpy as np
import pytest

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge


def codes_by_loops(N, d_model):
    codes = np.zeros((N, d_model))
    for p in range(N):
        for i in range(0, d_model, 2):
            codes[p, i], codes[p, i + 1] = np.sin(p / 10000 ** (i / d_model)), np.cos(p / 10000 ** (i / d_model))
    return codes


def one_step(d_model):
    R = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        b = 1 / 10000 ** (i / d_model)
        R[i : i + 2, i : i + 2] = [[np.cos(b), -np.sin(b)], [np.sin(b), np.cos(b)]]
    return R


RIGHT = {
    "one_hot": [
        lambda T, vocab_size: np.eye(vocab_size, dtype=int)[T],
        lambda T, vocab_size: [[[float(i == w) for w in range(vocab_size)] for i in row] for row in T],
        lambda T, vocab_size: (T[..., None] == np.arange(vocab_size)).astype(np.float32),
    ],
    "sinusoidal": [codes_by_loops, lambda N, d_model: codes_by_loops(N, d_model).astype(np.float32)],
    "rotation": [lambda delta, d_model: np.linalg.matrix_power(one_step(d_model), delta)],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, right in RIGHT.items() for i in range(len(right))])
def test_right_in_another_form_passes(name, number):
    result = judge(CATALOGUE[name], RIGHT[name][number])
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("one_hot", lambda T, vocab_size: 2 * np.eye(vocab_size)[T] - 1, "exactly one word"),
        ("one_hot", lambda T, vocab_size: np.eye(vocab_size), "has shape [5, 5], but should have [2, 3, 5]"),
        ("sinusoidal", lambda N, d: codes_by_loops(N, d)[None], "has shape [1, 2, 4], but should have [2, 4]"),
        ("sinusoidal", lambda N, d: codes_by_loops(N, d) / np.sqrt(d / 2), "different lengths"),
        ("sinusoidal", lambda N, d: codes_by_loops(N, d)[:, ::-1], "position 0 is not right"),
        ("rotation", lambda delta, d: -one_step(d), "a move by 0"),
        ("rotation", lambda delta, d: np.eye(d) * np.cos(delta), "changes the length"),
        ("rotation", lambda delta, d: one_step(2), "has shape [2, 2], but should have [10, 10]"),
    ],
)
def test_what_is_not_in_the_catalogue_gets_a_sentence_that_helps(name, wrong, message):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake is None
    assert message in result.message


@pytest.mark.parametrize("name", RIGHT)
def test_no_message_holds_an_expected_number(name):
    exercise = CATALOGUE[name]
    expected = exercise.reference(*exercise.cases(np.random.default_rng(0))[1])
    numbers = {f"{x:.4f}" for x in np.ravel(expected)} - {"0.0000", "1.0000"}
    for mistake in exercise.mistakes:
        assert not any(number in judge(exercise, mistake.function).message for number in numbers)

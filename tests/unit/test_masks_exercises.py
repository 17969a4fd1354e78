"""Chapter 5's checks beyond the catalogue: right answers of other styles pass, and messages say what is seen."""

import numpy as np
import pytest

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge


def stable(S, mask):
    """The softmax in the dtype of S, with zeros where there is nothing to read."""
    S = np.where(mask, S, -np.inf)
    top = S.max(axis=-1, keepdims=True)
    exps = np.exp(S - np.where(np.isfinite(top), top, 0.0))
    total = exps.sum(axis=-1, keepdims=True)
    return np.divide(exps, total, out=np.zeros_like(exps), where=total > 0)


def nan_removed(S, mask):
    S = np.where(mask, S, -np.inf)
    exps = np.exp(S - S.max(axis=-1, keepdims=True))
    return np.nan_to_num(exps / exps.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("causal_mask", lambda N_q, N_k: np.tri(N_q, N_k, N_k - N_q, dtype=bool)),
        ("causal_mask", lambda N_q, N_k: [[j <= i + N_k - N_q for j in range(N_k)] for i in range(N_q)]),
        ("padding_mask", lambda T, pad_id: [[[bool(t != pad_id) for t in row]] for row in T]),
        ("padding_mask", lambda T, pad_id: np.expand_dims(~np.equal(T, pad_id), 1)),
        ("masked_softmax", stable),
        ("masked_softmax", nan_removed),
    ],
)
def test_right_answers_of_other_styles_pass(name, right):
    result = judge(CATALOGUE[name], right)
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("causal_mask", lambda N_q, N_k: np.ones((N_q, N_k), dtype=bool), "a token that comes after it"),
        ("causal_mask", lambda N_q, N_k: np.eye(N_q, N_k, dtype=bool), "the last query may not read every key"),
        ("padding_mask", lambda T, pad_id: np.ones((len(T), 1, T.shape[1]), dtype=bool), "a padding token may be read"),
        ("padding_mask", lambda T, pad_id: (T < pad_id)[:, None], "a word may not be read"),
        (
            "masked_softmax",
            lambda S, mask: stable(S.astype(np.float32), mask),
            "holds float32, but should hold float64",
        ),
        ("masked_softmax", lambda S, mask: 2 * stable(S, mask), "does not sum to 1"),
    ],
)
def test_what_is_not_in_the_catalogue_is_still_described(name, wrong, said):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake is None
    assert said in result.message


def test_inputs_name_their_dtype_where_it_counts():
    message = judge(CATALOGUE["masked_softmax"], lambda S, mask: S + mask).message
    assert "on S [3, 5] float64, mask [3, 5] bool " in message


def filled(value):
    return lambda S, mask: _softmax(np.where(mask, S, np.array(value, S.dtype)))


def _softmax(S):
    exps = np.exp(S - S.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (filled(0), "scores multiplied by 0"),
        (filled(-1e-9), "scores multiplied by 0"),
        (filled(-1e4), "a finite number for minus infinity"),
        (lambda S, mask: _softmax(S + np.where(mask, 0, -1e-9).astype(S.dtype)), "mask forgotten"),
    ],
)
def test_what_comes_to_the_same_is_named_alike(wrong, mistake):
    result = judge(CATALOGUE["masked_softmax"], wrong)
    assert result.mistake == mistake

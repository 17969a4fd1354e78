"""The exercises of chapter 2 have many right answers, and more wrong ones than the catalogue holds."""

import numpy as np
import pytest

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge
from attnlib.exercises.query_key_value import FACTOR_FORM, PREVIOUS_TOKEN, SOFT_DICTIONARY


def thin(d_tok, N):
    """One-hot codes turned into points on a circle: a head of width 2 is enough."""
    angle = 2 * np.pi * np.arange(N) / N
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    none = np.zeros((d_tok, 2))
    return np.concatenate([none, 200 * np.roll(circle, 1, axis=0)]), np.concatenate([none, circle])


def stacked(d_tok, N):
    return np.stack(moved_query(d_tok, N))


def moved_query(d_tok, N):
    none = np.zeros((d_tok, N))
    return np.concatenate([none, 50 * np.eye(N, k=-1)]), np.concatenate([none, np.eye(N)])


def both_share_the_strength(d_tok, N):
    none = np.zeros((d_tok, N))
    return np.concatenate([none, 8 * np.eye(N)]), np.concatenate([none, 8 * np.roll(np.eye(N), -1, axis=0)])


@pytest.mark.parametrize("answer", [thin, moved_query, stacked, both_share_the_strength])
def test_every_way_to_read_the_previous_token_is_right(answer):
    result = judge(PREVIOUS_TOKEN, answer)
    assert result, result.message


@pytest.mark.parametrize("c", [0.01, 0.04, 0.18])
def test_not_sharp_enough_is_recognised_at_any_strength(c):
    def answer(d_tok, N):
        W_Q, W_K = moved_query(d_tok, N)
        return c * W_Q, W_K

    result = judge(PREVIOUS_TOKEN, answer)
    assert result.mistake == "not sharp enough"
    assert "not above 0.99" in result.message


def test_swapped_matrices_read_the_next_token():
    assert judge(PREVIOUS_TOKEN, lambda d_tok, N: moved_query(d_tok, N)[::-1]).mistake == "reads the next token"


def test_one_matrix_for_both_is_told_what_it_reads():
    result = judge(PREVIOUS_TOKEN, lambda d_tok, N: (moved_query(d_tok, N)[0],) * 2)
    assert not result
    assert "before it" in result.message


def qr(M, d_h):
    Q, R = np.linalg.qr(M)
    return Q[:, :d_h], R[:d_h].T


def any_basis(M, d_h):
    U, sigma, Vt = np.linalg.svd(M)
    R = np.random.default_rng(3).normal(size=(d_h, d_h))
    return U[:, :d_h] * sigma[:d_h] @ R, Vt[:d_h].T @ np.linalg.inv(R).T


@pytest.mark.parametrize("answer", [qr, any_basis])
def test_every_pair_of_factors_is_right(answer):
    result = judge(FACTOR_FORM, answer)
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("previous_token", lambda d_tok, N: np.eye(d_tok + N), "an array [8, 8], but should return two matrices"),
        ("previous_token", lambda d_tok, N: (np.eye(N), np.eye(N)), "d_tok + N = 8 rows"),
        ("previous_token", lambda d_tok, N: (np.ones((d_tok + N, 2)), np.ones((d_tok + N, 3))), "different widths"),
        ("previous_token", lambda d_tok, N: ("W_Q", "W_K"), "W_Q that is no matrix"),
        (
            "previous_token",
            lambda d_tok, N: (np.ones((d_tok + N, 2)),) * 3,
            "a tuple of 3 things, but",
        ),
        ("factor_form", lambda M, d_h: np.zeros((2, len(M), d_h)), "W_Q W_Kᵀ is 0."),
        ("factor_form", lambda M, d_h: (M, np.eye(len(M))), "queries and keys have d_h = 3 components"),
        ("factor_form", lambda M, d_h: np.linalg.svd(M), "should return two matrices"),
        ("factor_form", lambda M, d_h: (M[:d_h], M[:d_h]), "it needs d_model = 5 rows"),
    ],
)
def test_what_is_no_pair_of_matrices_is_named(name, answer, says):
    result = judge(CATALOGUE[name], answer)
    assert not result
    assert says in result.message


def test_nan_in_a_matrix_is_named():
    assert "NaN" in judge(PREVIOUS_TOKEN, lambda d_tok, N: (np.full((d_tok + N, 2), np.nan),) * 2).message


def test_a_mixture_that_leaves_the_values_is_seen():
    result = judge(SOFT_DICTIONARY, lambda Q, K, V, scale: Q @ K.T @ V + 50)
    assert "leaves the range of the values" in result.message

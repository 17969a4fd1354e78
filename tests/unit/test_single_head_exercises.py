"""Chapter 3's exercises: the reference of the gradient against autograd, and answers in other styles than ours."""

import numpy as np
import pytest
import torch

from attnlib import attention
from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge


@pytest.mark.parametrize("case", range(5))
def test_query_gradient_is_what_autograd_finds(case):
    exercise = CATALOGUE["query_gradient"]
    Q, K, V = list(exercise.cases(np.random.default_rng(7)))[case]

    def output_of(q):  # one query alone, so that the Jacobian has no empty blocks
        return attention(q[None], torch.from_numpy(K), torch.from_numpy(V)).H[0]

    found = torch.stack([torch.autograd.functional.jacobian(output_of, q) for q in torch.from_numpy(Q)])
    np.testing.assert_allclose(exercise.reference(Q, K, V), found.numpy(), rtol=1e-10, atol=1e-12)


def by_loops(Q, K, V):
    H = np.zeros((len(Q), V.shape[1]))
    for i in range(len(Q)):
        s = np.array([Q[i] @ K[j] for j in range(len(K))]) / len(Q[i]) ** 0.5
        a = np.exp(s - max(s))
        a = a / a.sum()
        for j in range(len(K)):
            H[i] += a[j] * V[j]
    return H


def by_lists(Q, K, V):
    return by_loops(Q, K, V).tolist()


def query_scaled_first(Q, K, V):
    S = (Q * Q.shape[-1] ** -0.5) @ K.T
    E = np.exp(S - S.max(-1, keepdims=True))
    return E @ V / E.sum(-1, keepdims=True)


def in_torch(Q, K, V):
    return torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, V)))


@pytest.mark.parametrize("answer", [by_loops, by_lists, query_scaled_first, in_torch])
def test_attention_may_be_written_in_any_style(answer):
    result = judge(CATALOGUE["attention"], answer)
    assert result, result.message


def test_cross_attention_sentence_by_sentence():
    def answer(X, C, W_Q, W_K, W_V):
        return np.stack([by_loops(x @ W_Q, c @ W_K, c @ W_V) for x, c in zip(X, C, strict=True)])

    result = judge(CATALOGUE["cross_attention"], answer)
    assert result, result.message


def test_query_gradient_by_numpys_weighted_covariance():
    def answer(Q, K, V):
        A = attention(Q, K, V).A
        both = np.concatenate([V, K], axis=1).T
        d_v = V.shape[1]
        return np.stack([np.cov(both, aweights=a, bias=True)[:d_v, d_v:] for a in A]) / np.sqrt(Q.shape[1])

    result = judge(CATALOGUE["query_gradient"], answer)
    assert result, result.message


@pytest.mark.parametrize(
    ("exercise", "symptom", "answer"),
    [
        ("attention", "A weighted mean cannot leave it", lambda Q, K, V: 2 * attention(Q, K, V).H),
        ("softmax", "rows do not sum to 1", lambda S: np.full(S.shape, 0.1)),
        ("softmax", "negative entries", lambda S: -np.ones(S.shape)),
    ],
)
def test_symptoms_are_named_where_no_mistake_is_recognised(exercise, symptom, answer):
    result = judge(CATALOGUE[exercise], answer)
    assert result.mistake is None
    assert symptom in result.message


def test_a_tuple_is_named_not_called_an_error():
    message = judge(CATALOGUE["attention"], lambda Q, K, V: (Q, K, V)).message
    assert message == "Not yet: your function returns a tuple of 3 things, not an array of numbers."

"""The checks of chapter 10 accept what is right in another form, and do not mistake one wrong answer for another."""

import numpy as np
import pytest
import torch

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge
from attnlib.training import Induction, MarkovChain


def accuracy_by_loops(logits, answers):
    right = asked = 0
    for b, i in np.ndindex(answers.shape):
        if answers[b, i] != -100:
            asked += 1
            right += int(logits[b, i].argmax() == answers[b, i])
    return right / asked


def floor_by_eigenvector(P):
    values, vectors = np.linalg.eig(P.T)
    p = vectors[:, values.real.argmax()].real
    p = p / p.sum()
    n = range(len(P))
    return -sum(p[i] * P[i, j] * np.log(P[i, j]) for i in n for j in n if P[i, j] > 0)


def floor_of_pairs(P):
    p = np.linalg.matrix_power(P, 5000)[0]

    def entropy(x):
        return -(x[x > 0] * np.log(x[x > 0])).sum()

    return entropy(p[:, None] * P) - entropy(p)


def score_by_loops(A, T):
    found = []
    for b, i in np.ndindex(T.shape):
        weights = [A[b, i, j + 1] for j in range(i) if T[b, j] == T[b, i]]
        if weights:
            found.append(sum(weights))
    return sum(found) / len(found)


def score_by_einsum(A, T):
    copies = np.tril(T[:, :, None] == T[:, None, :], k=-1)
    return np.einsum("bij,bij->", A[:, :, 1:], copies[:, :, :-1]) / copies.any(axis=-1).sum()


RIGHT = {
    "masked_accuracy": [
        accuracy_by_loops,
        lambda logits, answers: ((logits.argmax(-1) == answers) & (answers >= 0)).sum() / (answers >= 0).sum(),
        lambda logits, answers: torch.tensor((logits.argmax(-1) == answers)[answers >= 0]).double().mean(),
    ],
    "entropy_floor": [
        floor_by_eigenvector,
        floor_of_pairs,
        lambda P: np.float32(floor_by_eigenvector(P)),
        lambda P: torch.tensor(floor_by_eigenvector(P)),
    ],
    "induction_score": [score_by_loops, score_by_einsum, lambda A, T: np.float32(score_by_loops(A, T))],
    "one_head_ceiling": [
        lambda asked, values: 1 / asked + (1 - 1 / asked) / values,
        lambda asked, values: np.mean([1.0] + [1 / values] * (asked - 1)),
        lambda asked, values: torch.tensor((1 + (asked - 1) / values) / asked),
    ],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, right in RIGHT.items() for i in range(len(right))])
def test_right_in_another_form_passes(name, number):
    result = judge(CATALOGUE[name], RIGHT[name][number])
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("masked_accuracy", lambda logits, answers: (logits.max(-1) == answers).mean()),
        ("entropy_floor", lambda P: np.log(len(P))),
        ("entropy_floor", lambda P: floor_by_eigenvector(P) * 1.01),
        ("induction_score", lambda A, T: A.max()),
        ("one_head_ceiling", lambda asked, values: 0.5625),
    ],
)
def test_what_is_not_in_the_catalogue_is_wrong_without_a_name(name, wrong):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake is None


def test_references_agree_with_the_library():
    chain = MarkovChain()
    assert CATALOGUE["entropy_floor"].reference(chain.P) == pytest.approx(chain.floor)
    (T,), _ = Induction().batch(5, torch.Generator().manual_seed(0))
    A = np.tril(np.random.default_rng(0).random((5, 20, 20)))
    (own,) = CATALOGUE["induction_score"].own
    assert CATALOGUE["induction_score"].reference(A, T.numpy()) == pytest.approx(own(A, T.numpy()))


def test_cases_hold_what_makes_mistakes_visible():
    for A, _ in CATALOGUE["induction_score"].cases(np.random.default_rng(0)):
        assert np.allclose(A.sum(axis=-1), 1)
        assert (np.triu(A, 1) == 0).all()
    symbols = [T for _, T in CATALOGUE["induction_score"].cases(np.random.default_rng(0))]
    assert any((T[:, 1:] == T[:, :-1]).any() for T in symbols), "equal neighbors"
    assert any(max(np.bincount(ids)) > 2 for T in symbols for ids in T), "a symbol that comes three times"
    for (P,) in CATALOGUE["entropy_floor"].cases(np.random.default_rng(0)):
        assert np.allclose(P.sum(axis=1), 1)
    assert any((P == 0).any() for (P,) in CATALOGUE["entropy_floor"].cases(np.random.default_rng(0)))

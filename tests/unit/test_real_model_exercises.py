"""Chapter 11's checks beyond the catalogue: other right ways pass, and a mistake is not taken for another one."""

import numpy as np
import pytest
import torch

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge


def pooled_by_loop(X, real):
    vectors = []
    for tokens, kept in zip(X, real, strict=True):
        mean = tokens[kept].mean(axis=0)
        vectors.append(mean / np.sqrt((mean**2).sum()))
    return np.array(vectors)


def pooled_by_einsum(X, real):
    total = np.einsum("bnd,bn->bd", X, real.astype(X.dtype))
    return total / np.linalg.norm(total, axis=-1, keepdims=True)  # the count cancels


def pooled_by_torch(X, real):
    X, real = torch.from_numpy(X), torch.from_numpy(real)[..., None]
    return torch.nn.functional.normalize((X * real).sum(1) / real.sum(1), dim=-1)


def previous_by_loop(A, real):
    totals, count = np.zeros(A.shape[1]), 0
    for b in range(len(A)):
        for i in range(1, real[b].sum()):
            totals += A[b, :, i, i - 1]
            count += 1
    return totals / count


def previous_by_indices(A, real):
    b, i = np.nonzero(real)
    b, i = b[i > 0], i[i > 0]
    return A[b, :, i, i - 1].mean(axis=0)


def previous_as_list(A, real):
    heads = []
    for a in range(A.shape[1]):
        band = np.stack([np.diag(weights, -1) for weights in A[:, a]])
        heads.append(float(band[real[:, 1:]].mean()))
    return heads


def silenced_by_rows(H, W_O, b_O, a):
    B, h, N, d_h = H.shape
    W = W_O.copy()
    W[a * d_h : (a + 1) * d_h] = 0
    return np.swapaxes(H, 1, 2).reshape(B, N, h * d_h) @ W + b_O


def silenced_by_sum(H, W_O, b_O, a):
    pieces = W_O.reshape(H.shape[1], H.shape[3], -1)
    return sum(H[:, k] @ pieces[k] for k in range(H.shape[1]) if k != a) + b_O


def silenced_by_torch(H, W_O, b_O, a):
    H, W_O, b_O = (torch.from_numpy(x).clone() for x in (H, W_O, b_O))
    H[:, a] = 0
    return H.transpose(1, 2).flatten(2) @ W_O + b_O


def held_out_by_loop(right, chosen_on):
    best, most = 0, -1
    for head in range(right.shape[1]):
        if right[chosen_on, head].sum() > most:
            best, most = head, right[chosen_on, head].sum()
    others = [row[best] for row, seen in zip(right, chosen_on, strict=True) if not seen]
    return sum(others) / len(others)


RIGHT = [
    ("sentence_vectors", pooled_by_loop),
    ("sentence_vectors", pooled_by_einsum),
    ("sentence_vectors", pooled_by_torch),
    ("previous_score", previous_by_loop),
    ("previous_score", previous_by_indices),
    ("previous_score", previous_as_list),
    ("silenced", silenced_by_rows),
    ("silenced", silenced_by_sum),
    ("silenced", silenced_by_torch),
    ("held_out", held_out_by_loop),
    ("held_out", lambda right, chosen_on: torch.tensor(held_out_by_loop(right, chosen_on))),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_another_right_way_passes(name, answer):
    result = judge(CATALOGUE[name], answer)
    assert result, result.message


@pytest.mark.parametrize("name", ["sentence_vectors", "previous_score", "silenced"])
def test_float32_passes(name):
    result = judge(CATALOGUE[name], lambda *case: CATALOGUE[name].reference(*case).astype(np.float32))
    assert result, result.message


def mean_of_all_rows(A, real):
    return np.array([[np.diag(w, -1).mean() for w in heads] for heads in A]).mean(axis=0)


def deleted_head(H, W_O, b_O, a):
    """The head's slice is taken out of concat, and the last rows of W_O with it: the others meet the wrong rows."""
    kept = np.delete(H, a, axis=1)
    B, h, N, d_h = kept.shape
    return kept.transpose(0, 2, 1, 3).reshape(B, N, h * d_h) @ W_O[: h * d_h] + b_O


WRONG = [
    ("sentence_vectors", lambda X, real: pooled_by_einsum(X, np.ones_like(real)), "padding in the mean"),
    ("sentence_vectors", lambda X, real: pooled_by_einsum(X, ~real), "only padding pooled"),
    ("previous_score", mean_of_all_rows, "padding counts as tokens"),
    ("previous_score", lambda A, real: previous_by_indices(A.swapaxes(-1, -2), real), "the next token"),
    ("silenced", lambda H, W_O, b_O, a: silenced_by_rows(H, W_O.T, b_O, a), None),
    ("silenced", deleted_head, "head taken out, W_O cut at its end"),
    ("held_out", lambda right, chosen_on: right[chosen_on].mean(axis=0).max(), "chosen and scored on the same half"),
    ("held_out", lambda right, chosen_on: right[~chosen_on].mean(axis=0).max(), "chosen on the test half"),
    ("held_out", lambda right, chosen_on: right.mean(axis=0).max(), "chosen and scored on everything"),
]


@pytest.mark.parametrize(("name", "wrong", "mistake"), WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mistake_written_otherwise_has_the_same_name(name, wrong, mistake):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake == mistake, result.message


def test_no_check_needs_the_weights(monkeypatch):
    monkeypatch.setattr("attnlib.pretrained.PACKAGE", "no_such_package")
    for name in ("sentence_vectors", "previous_score", "silenced", "held_out"):
        assert judge(CATALOGUE[name], lambda *case, name=name: CATALOGUE[name].reference(*case))

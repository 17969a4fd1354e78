"""Chapter 12's checks beyond the catalogue: right answers of other styles pass, and messages say what is seen."""

import numpy as np
import pytest
import torch

from attnlib import attention, linear_attention_step
from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge
from attnlib.exercises.long_sequences import Blocks

LOWEST = np.finfo(float).min


def online_by_rows(blocks):
    """Keep the output divided all the time, and a guard where nothing has been read."""
    m = total = H = None
    for S, V in blocks:
        if m is None:
            m, total, H = np.full(len(S), -np.inf), np.zeros(len(S)), np.zeros((len(S), V.shape[1]))
        else:
            m, total, H = m.copy(), total.copy(), H.copy()
        for i, row in enumerate(S):
            new = max(m[i], row.max())
            if new == -np.inf:
                continue
            old, e = total[i] * np.exp(m[i] - new), np.exp(row - new)
            total[i] = old + e.sum()
            H[i], m[i] = (old * H[i] + e @ V) / total[i], new
    return H


def online_in_torch(blocks):
    m, total, H = torch.tensor(LOWEST), 0.0, 0.0
    for S, V in blocks:
        S, V = torch.from_numpy(S), torch.from_numpy(V)
        new = torch.maximum(m, S.amax(-1, keepdim=True))
        E, c = torch.exp(S - new), torch.exp(m - new)
        total, H, m = c * total + E.sum(-1, keepdim=True), c * H + E @ V, new
    return H / torch.where(total == 0, 1.0, total)


def online_by_logarithms(blocks):
    size, H = -np.inf, 0.0
    for S, V in blocks:
        block = np.logaddexp.reduce(S, axis=-1, keepdims=True)
        both = np.logaddexp(size, block)
        base = np.where(np.isneginf(both), 0.0, both)
        H, size = np.exp(size - base) * H + np.exp(S - base) @ V, both
    return H


def window_by_loops(N_q, N_k, window):
    mask = np.zeros((N_q, N_k), dtype=bool)
    for i in range(N_q):
        end = i + N_k - N_q + 1
        mask[i, max(0, end - window) : end] = True
    return mask


def window_by_triangles(N_q, N_k, window):
    ones = torch.ones(N_q, N_k, dtype=torch.bool)
    return ones.tril(N_k - N_q) & ones.triu(N_k - N_q - window + 1)


def merge_by_logarithms(m_1, l_1, U_1, m_2, l_2, U_2):
    """Return another triple that stands for the same: relative to the sum of exponentials itself."""
    size = np.logaddexp(m_1 + np.log(l_1), m_2 + np.log(l_2))
    base = np.where(np.isneginf(size), 0.0, size)
    U = np.exp(m_1 - base)[:, None] * U_1 + np.exp(m_2 - base)[:, None] * U_2
    return base, np.where(np.isneginf(size), 0.0, 1.0), U


def merge_without_nan(m_1, l_1, U_1, m_2, l_2, U_2):
    m = np.maximum(m_1, m_2)
    c_1, c_2 = np.nan_to_num(np.exp(m_1 - m)), np.nan_to_num(np.exp(m_2 - m))
    return [m, c_1 * l_1 + c_2 * l_2, (c_1 * U_1.T + c_2 * U_2.T).T]


def decode_by_sentences(x, K, V, lengths, W_Q, W_K, W_V):
    K, V = np.array(K), np.array(V)
    H = []
    for b, n in enumerate(lengths):
        K[b, n], V[b, n] = x[b] @ W_K, x[b] @ W_V
        H.append(attention((x[b] @ W_Q)[None], K[b, : n + 1], V[b, : n + 1]).H[0])
    return np.array(H), K, V


def decode_in_torch(*case):
    x, K, V, lengths, W_Q, W_K, W_V = (torch.tensor(Z) for Z in case)
    b = torch.arange(len(x))
    K[b, lengths], V[b, lengths] = x @ W_K, x @ W_V
    S = torch.einsum("bd,bnd->bn", x @ W_Q, K) / W_Q.shape[1] ** 0.5
    S = S.masked_fill(torch.arange(K.shape[1]) > lengths[:, None], -torch.inf)
    return torch.einsum("bn,bnd->bd", S.softmax(-1), V), K, V


def decode_and_clean(x, K, V, lengths, *W):
    """What stands behind the new length is nobody's business."""
    H, K, V = decode_by_sentences(x, K, V, lengths, *W)
    behind = np.arange(K.shape[1]) > lengths[:, None]
    K[behind], V[behind] = 0, 0
    return H, K, V


def state_by_cumulative_sums(phi_Q, phi_K, V):
    Z, z = np.cumsum(phi_K[:, :, None] * V[:, None, :], axis=0), np.cumsum(phi_K, axis=0)
    H = np.einsum("nd,ndv->nv", phi_Q, Z) / np.einsum("nd,nd->n", phi_Q, z)[:, None]
    return H, Z[-1], z[-1]


def state_by_steps(phi_Q, phi_K, V):
    state, H = None, []
    for q, k, v in zip(phi_Q, phi_K, V, strict=True):
        state, h = linear_attention_step(state, q, k, v, feature_map=np.asarray)
        H.append(h)
    return H, state[:, :-1], state[:, -1]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("online_attention", online_by_rows),
        ("online_attention", online_in_torch),
        ("online_attention", online_by_logarithms),
        ("window_mask", window_by_loops),
        ("window_mask", window_by_triangles),
        ("merge", merge_by_logarithms),
        ("merge", merge_without_nan),
        ("decode_step", decode_by_sentences),
        ("decode_step", decode_in_torch),
        ("decode_step", decode_and_clean),
        ("linear_state", state_by_cumulative_sums),
        ("linear_state", state_by_steps),
    ],
)
def test_right_answers_of_other_styles_pass(name, right):
    result = judge(CATALOGUE[name], right)
    assert result, result.message


def tiny_for_nothing(blocks):
    H = online_by_rows(blocks)
    return np.where(H == 0, 1e-3, H)


def late_state(phi_Q, phi_K, V):
    """Return a state that holds the last pair twice."""
    return phi_K.T @ V + np.outer(phi_K[-1], V[-1]), phi_K.sum(axis=0) + phi_K[-1]


def single(name, right):
    """Return the right answer in float32."""
    return lambda *case: tuple(np.asarray(part, np.float32) for part in right(*case))


@pytest.mark.parametrize(
    ("name", "right"),
    [("merge", merge_by_logarithms), ("decode_step", decode_by_sentences), ("linear_state", state_by_cumulative_sums)],
)
def test_right_answers_in_float32_pass(name, right):
    result = judge(CATALOGUE[name], single(name, right))
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("online_attention", tiny_for_nothing, "a query that may read nothing has an output"),
        ("online_attention", lambda blocks: np.ones((3, 2)) * 99, "larger than every value"),
        ("window_mask", lambda N_q, N_k, window: np.zeros((N_q, N_k), dtype=bool), "may not read its own key"),
        ("window_mask", lambda N_q, N_k, window: np.ones((N_q, N_k), dtype=bool), "a key that comes after it"),
        ("merge", lambda *case: case[:2], "returns something else than three arrays (m, l, U)"),
        ("merge", lambda *case: (case[0], case[1], case[2][:, :1]), "but m and l should be [3] and U [3, 2]"),
        ("merge", lambda *case: case[:3], "off by up to"),
        ("decode_step", lambda *case: decode_by_sentences(*case)[0], "returns something else than three arrays"),
        ("decode_step", lambda x, K, V, *others: (x, K, V), "returns H of shape [2, 7], but it should be [2, 5]"),
        ("linear_state", lambda phi_Q, phi_K, V: (V, phi_K.T, phi_K[0]), "Z of shape [3, 5], but it should be [3, 2]"),
        (
            "linear_state",
            lambda *case: (state_by_cumulative_sums(*case)[0], *late_state(*case)),
            "H is right, the state",
        ),
    ],
)
def test_what_is_not_in_the_catalogue_is_still_described(name, wrong, said):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert said in result.message


def test_blocks_are_named_in_a_message():
    message = judge(CATALOGUE["online_attention"], lambda blocks: 1 / 0).message
    assert "on blocks = 3 queries, 10 keys, d_v 2 your function raised ZeroDivisionError" in message


def test_blocks_cut_the_keys_and_nothing_else():
    S, V = np.arange(12.0).reshape(2, 6), np.arange(18.0).reshape(6, 3)
    (S_1, V_1), (S_2, V_2) = Blocks(S, V, (4, 2))
    assert np.array_equal(np.hstack([S_1, S_2]), S)
    assert np.array_equal(np.vstack([V_1, V_2]), V)


def test_a_student_who_changes_a_block_is_told():
    def spoil(blocks):
        for S, _ in blocks:
            S -= S.max()
        return np.zeros((3, 2))

    assert "changes the arrays it is given" in judge(CATALOGUE["online_attention"], spoil).message

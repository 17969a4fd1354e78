"""Chapter 13's checks beyond the catalogue: right answers of many styles pass, and messages say what is seen."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge

sdpa = F.scaled_dot_product_attention


def future(N):
    return torch.ones(N, N, dtype=torch.bool).triu(1)


def masks_of_numbers(T, pad_id):
    padding = torch.zeros(T.shape).masked_fill(T == pad_id, -torch.inf)
    return padding, nn.Transformer.generate_square_subsequent_mask(T.shape[1])


def masks_by_loops(T, pad_id):
    N = T.shape[1]
    return [[bool(t == pad_id) for t in row] for row in T], [[j > i for j in range(N)] for i in range(N)]


def masks_of_large_numbers(T, pad_id):
    return (T == pad_id) * -1e9, future(T.shape[1]) * -1e9


def short_by_numbers(Q, K, V):
    N_q, N_k = Q.shape[2], K.shape[2]
    hidden = torch.ones(N_q, N_k, dtype=torch.bool).triu(N_k - N_q + 1)
    return sdpa(Q, K, V, attn_mask=torch.zeros(N_q, N_k, dtype=Q.dtype).masked_fill(hidden, -torch.inf))


def short_by_a_longer_query(Q, K, V):
    """Put queries that nobody looks at in front, so that the mask is a square."""
    N_q, N_k = Q.shape[2], K.shape[2]
    return sdpa(F.pad(Q, (0, 0, N_k - N_q, 0)), K, V, is_causal=True)[:, :, -N_q:]


def short_by_loops(Q, K, V):
    N_q, N_k = Q.shape[2], K.shape[2]
    rows = []
    for i in range(N_q):
        seen = N_k - N_q + i + 1
        rows.append(sdpa(Q[:, :, i : i + 1], K[:, :, :seen], V[:, :, :seen]))
    return torch.cat(rows, dim=2)


def short_by_einsum(Q, K, V):
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    i, j = torch.arange(Q.shape[2])[:, None], torch.arange(K.shape[2])
    S = S.masked_fill(j > i + K.shape[2] - Q.shape[2], -torch.inf)
    return torch.einsum("bhij,bhjd->bhid", S.softmax(dim=-1), V)


def block_by_linear(x, W_attn, b_attn, W_proj, b_proj, h):
    B, N, d = x.shape
    q, k, v = F.linear(x, W_attn, b_attn).view(B, N, 3, h, d // h).permute(2, 0, 3, 1, 4)
    return F.linear(sdpa(q, k, v, is_causal=True).transpose(1, 2).reshape(B, N, d), W_proj, b_proj)


def block_by_loops(x, W_attn, b_attn, W_proj, b_proj, h):
    d = x.shape[2]
    heads = []
    for a in range(h):
        own = slice(a * d // h, (a + 1) * d // h)
        q, k, v = (x @ W_attn[n * d : n * d + d][own].T + b_attn[n * d : n * d + d][own] for n in range(3))
        S = (q @ k.mT / (d // h) ** 0.5).masked_fill(future(x.shape[1]), -torch.inf)
        heads.append(S.softmax(dim=-1) @ v)
    return torch.cat(heads, dim=-1) @ W_proj.T + b_proj


def block_by_module(x, W_attn, b_attn, W_proj, b_proj, h):
    module = nn.MultiheadAttention(x.shape[2], h, batch_first=True, dtype=x.dtype)
    names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    module.load_state_dict(dict(zip(names, (W_attn, b_attn, W_proj, b_proj), strict=True)))
    return module(x, x, x, attn_mask=future(x.shape[1]))[0]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("module_masks", lambda T, pad_id: (T.eq(pad_id), ~torch.ones(T.shape[1], T.shape[1]).tril().bool())),
        ("module_masks", masks_of_numbers),
        ("module_masks", masks_of_large_numbers),
        ("module_masks", masks_by_loops),
        ("short_causal", short_by_numbers),
        ("short_causal", lambda Q, K, V: sdpa(Q, K, V, attn_mask=causal_lower_right(Q.shape[2], K.shape[2]))),
        ("short_causal", short_by_a_longer_query),
        ("short_causal", short_by_loops),
        ("short_causal", short_by_einsum),
        ("short_causal", lambda Q, K, V: short_by_numbers(Q.float(), K.float(), V.float())),
        ("unpack", lambda packed: packed.T.chunk(3, dim=1)),
        ("unpack", lambda packed: packed.view(3, packed.shape[1], -1).mT.unbind()),
        ("unpack", lambda packed: list(np.split(packed.numpy().T, 3, axis=1))),
        ("unpack", lambda packed: [nn.Parameter(W.T) for W in packed.split(packed.shape[1])]),
        ("block", block_by_linear),
        ("block", block_by_loops),
        ("block", block_by_module),
        ("block", lambda *case: block_by_linear(*(z.float() for z in case[:-1]), case[-1])),
    ],
)
def test_right_answers_of_other_styles_pass(name, right):
    result = judge(CATALOGUE[name], right)
    assert result, result.message


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("module_masks", lambda T, pad_id: T == pad_id, "returns a Tensor, but two masks were asked for"),
        ("module_masks", lambda T, pad_id: (future(T.shape[1]), T == pad_id), "key_padding_mask [5, 5]; the module"),
        ("module_masks", lambda T, pad_id: ((T == pad_id)[:, None], future(T.shape[1])), "key_padding_mask [2, 1, 5];"),
        ("module_masks", lambda T, pad_id: ((T == pad_id).int(), future(T.shape[1])), "of int32; the module takes"),
        ("module_masks", lambda T, pad_id: (T < 0, torch.ones(T.shape[1], T.shape[1]) > 0), "a word may not be read"),
        ("module_masks", lambda T, pad_id: (T == pad_id, future(T.shape[1]) & (torch.arange(T.shape[1]) > 3)), "after"),
        ("module_masks", lambda T, pad_id: ((T == pad_id).cumsum(1) > 1, future(T.shape[1])), "padding may be read"),
        ("short_causal", lambda Q, K, V: sdpa(Q, K, V, scale=1.0), "the last query does not read all keys"),
        ("short_causal", lambda Q, K, V: K, "has shape [2, 3, 7, 5], but should have [2, 3, 4, 5]"),
        ("unpack", lambda packed: packed.T, "a Tensor, but three matrices were asked for"),
        ("unpack", lambda packed: (packed, packed[:2], packed), "matrices of shapes [18, 6], [2, 6], [18, 6]"),
        ("unpack", lambda packed: ("Q", "K", "V"), "not all arrays of numbers"),
        ("unpack", lambda packed: (torch.zeros(len(packed) // 3, len(packed) // 3),) * 3, "the first d_model rows"),
        ("block", lambda x, *rest: x, "the first token of a sentence, which reads only itself, is wrong"),
        (
            "block",
            lambda *case: block_by_linear(*case) + torch.arange(case[0].shape[1])[:, None],
            "is right, and others are not",
        ),
        ("block", lambda x, W_attn, *rest: x @ W_attn, "raised RuntimeError"),
    ],
)
def test_what_is_not_in_the_catalogue_is_still_described(name, wrong, said):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake is None
    assert said in result.message


def test_arguments_come_as_tensors_and_may_not_be_changed():
    seen = []

    def spoil(Q, K, V):
        seen.append(type(Q))
        Q *= 0
        return Q

    assert "your function changes the arrays" in judge(CATALOGUE["short_causal"], spoil).message
    assert set(seen) == {torch.Tensor}


def test_the_first_masks_a_student_tries_have_the_right_name():
    def by_hand(T, pad_id):
        return T != pad_id, torch.tril(torch.ones(T.shape[1], T.shape[1])).bool()

    assert judge(CATALOGUE["module_masks"], by_hand).mistake == "both the wrong way round"
    wrong = judge(CATALOGUE["short_causal"], lambda Q, K, V: sdpa(Q, K, V, is_causal=True))
    assert wrong.mistake == "is_causal=True"
    aligned = judge(
        CATALOGUE["short_causal"],
        lambda Q, K, V: sdpa(Q, K, V, attn_mask=torch.ones(Q.shape[2], K.shape[2]).tril().bool()),
    )
    assert aligned.mistake == "is_causal=True"

"""`attention` against torch.nn.functional.scaled_dot_product_attention: values and gradients."""

import numpy as np
import pytest
import torch
from support import assert_close, gradients, to_numpy
from torch.nn.functional import scaled_dot_product_attention

from attnlib import attention, causal_mask, padding_mask

B, h, d_h = 2, 3, 5
SIZES = {"self": (7, 7, d_h), "cross": (4, 7, d_h), "more queries": (7, 4, d_h), "wide values": (4, 7, 8)}


def padding(N_k):
    T = np.ones((B, N_k), dtype=int)
    T[1, N_k - 2 :] = 0
    return padding_mask(T, pad_id=0)[:, None]  # [B, 1, 1, N_k]


def random_mask(N_q, N_k):
    return np.random.default_rng(5).random((B, h, N_q, N_k)) < 0.4


MASKS = {
    "none": lambda N_q, N_k: {},
    "causal": lambda N_q, N_k: {"mask": causal_mask(N_q, N_k)},
    "padding": lambda N_q, N_k: {"mask": padding(N_k)},
    "causal and padding": lambda N_q, N_k: {"mask": causal_mask(N_q, N_k) & padding(N_k)},
    "one for each head": lambda N_q, N_k: {"mask": random_mask(N_q, N_k)},
    "nothing at all": lambda N_q, N_k: {"mask": np.zeros((N_q, N_k), dtype=bool)},
    "bias": lambda N_q, N_k: {"bias": np.random.default_rng(6).normal(size=(B, h, N_q, N_k))},
    "bias of -inf": lambda N_q, N_k: {"bias": np.where(causal_mask(N_q, N_k), 0.0, -np.inf)},
    "scale": lambda N_q, N_k: {"scale": 0.3},
}

every_case = pytest.mark.parametrize(
    ("sizes", "kwargs"),
    [pytest.param(SIZES[size], MASKS[kind], id=f"{size}, {kind}") for size in SIZES for kind in MASKS],
)


def draw(rng, N_q, N_k, d_v):
    return [rng.normal(size=(B, h, *shape)) for shape in [(N_q, d_h), (N_k, d_h), (N_k, d_v)]]


def in_torch(Q, K, V, *, mask=None, bias=None, scale=None):
    mask = bias if mask is None else mask
    return scaled_dot_product_attention(Q, K, V, attn_mask=None if mask is None else torch.tensor(mask), scale=scale)


@every_case
def test_values_agree_in_float64(rng, lib, sizes, kwargs):
    Q, K, V = draw(rng, *sizes)
    kwargs = kwargs(*sizes[:2])
    H = attention(lib(Q), lib(K), lib(V), **kwargs).H
    assert_close(H, in_torch(*map(torch.tensor, (Q, K, V)), **kwargs), atol=1e-10)


@every_case
def test_gradients_agree_in_float64(rng, sizes, kwargs):
    QKV, kwargs = draw(rng, *sizes), kwargs(*sizes[:2])
    mine = gradients(lambda *qkv: attention(*qkv, **kwargs).H, *QKV)
    theirs = gradients(lambda *qkv: in_torch(*qkv, **kwargs), *QKV)
    for x, y in zip(mine, theirs, strict=True):
        assert_close(x, y, atol=1e-10)


@every_case
def test_values_agree_in_float32(rng, lib, sizes, kwargs):
    """Within 2e-6 of the largest value."""
    QKV = [x.astype(np.float32) for x in draw(rng, *sizes)]
    kwargs = kwargs(*sizes[:2])
    if "bias" in kwargs:
        kwargs["bias"] = kwargs["bias"].astype(np.float32)
    H, expected = attention(*map(lib, QKV), **kwargs).H, in_torch(*map(torch.tensor, QKV), **kwargs)
    assert_close(H, expected, atol=2e-6 * max(1e-30, float(expected.abs().max())))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_as_good_as_torch(rng, dtype):
    """Summed in float32 and rounded once: within one rounding of the exact result."""
    QKV = [torch.tensor(x).to(dtype) for x in draw(rng, 4, 7, 8)]
    exact = in_torch(*(x.double() for x in QKV))
    mine, theirs = attention(*QKV).H, in_torch(*QKV)
    assert mine.dtype == dtype
    assert (mine - exact).abs().max() <= (theirs - exact).abs().max() * 1.1
    assert_close(mine.double(), exact, atol=torch.finfo(dtype).eps * float(exact.abs().max()))


def test_is_causal_of_torch_agrees_on_squares(rng):
    """torch aligns is_causal at the start and attnlib at the end; for N_q = N_k they are the same."""
    Q, K, V = map(torch.tensor, draw(rng, 7, 7, 5))
    assert_close(attention(Q, K, V, mask=causal_mask(7)).H, scaled_dot_product_attention(Q, K, V, is_causal=True))


@pytest.mark.parametrize("kwargs", MASKS.values(), ids=MASKS)
def test_numpy_equals_torch(rng, kwargs):
    """All four results, not only the output."""
    QKV, kwargs = draw(rng, 4, 7, 8), kwargs(4, 7)
    for x, y in zip(attention(*QKV, **kwargs), attention(*map(torch.tensor, QKV), **kwargs), strict=True):
        assert isinstance(x, np.ndarray)
        assert_close(x, y, atol=1e-12)


def test_gradient_reaches_a_bias(rng):
    """A learned bias (relative positions): the gradient of torch, and 0 where the mask forbids."""
    *QKV, bias = *draw(rng, 4, 7, 8), rng.normal(size=(4, 7))
    mask = causal_mask(4, 7)
    tensors = [torch.tensor(x) for x in QKV]

    def theirs(bias):
        return scaled_dot_product_attention(*tensors, attn_mask=bias.masked_fill(~torch.tensor(mask), -torch.inf))

    (mine,) = gradients(lambda bias: attention(*tensors, mask=mask, bias=bias).H, bias)
    (expected,) = gradients(theirs, bias)
    assert_close(mine, expected, atol=1e-10)
    assert (to_numpy(mine)[~mask] == 0).all()


@pytest.mark.parametrize("mask", [None, causal_mask(4, 3)], ids=["no mask", "an empty row"])
def test_first_and_second_derivatives_are_those_of_finite_differences(rng, mask):
    Q, K, V = (torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in [(4, 2), (3, 2), (3, 5)])

    def output(*qkv):
        return attention(*qkv, mask=mask).H

    assert torch.autograd.gradcheck(output, (Q, K, V))
    assert torch.autograd.gradgradcheck(output, (Q, K, V))

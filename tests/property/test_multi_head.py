"""Laws of several heads: splitting, joining, and what each head and each token may depend on."""

import numpy as np
import pytest
import torch
from cases import Tokens, normal, seeds, sizes, tokens
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import assert_close, gradients, to_numpy

from attnlib import (
    MultiHeadWeights,
    attention,
    causal_mask,
    concat_heads,
    multi_head_attention,
    padding_mask,
    project,
    shape_table,
    split_heads,
)


def weights_of(lib, case: Tokens, d_v: int = 2, dtype="float64") -> MultiHeadWeights:
    """Random weights with biases, whose values have a width of their own."""
    d_model, h = case.X.shape[-1], case.h
    rng = np.random.default_rng(case.seed)
    shapes = [(d_model, d_model), (d_model, d_model), (d_model, h * d_v), (h * d_v, d_model)]
    W = [lib(rng.normal(size=shape).astype(dtype)) for shape in shapes]
    b = [lib(rng.normal(size=shape[1]).astype(dtype)) for shape in shapes]
    return MultiHeadWeights(*W, h, *b)


def run(lib, case: Tokens, X=None, **kwargs):
    return multi_head_attention(lib(case.X if X is None else X), weights_of(lib, case), **kwargs)


@given(case=tokens())
def test_concat_undoes_split(lib, case):
    X = lib(case.X)
    pieces = split_heads(X, case.h)
    assert_close(concat_heads(pieces), case.X, atol=0)
    assert_close(split_heads(concat_heads(pieces), case.h), pieces, atol=0)


@given(case=tokens())
def test_each_head_holds_its_columns_of_all_tokens(lib, case):
    d_h = case.X.shape[-1] // case.h
    for a in range(case.h):
        assert_close(split_heads(lib(case.X), case.h)[:, a], case.X[..., a * d_h : (a + 1) * d_h], atol=0)


@given(case=tokens(), N_k=sizes)
def test_each_head_is_single_head_attention_on_its_slice(lib, case, N_k):
    """Project with the columns of head a alone, attend, and find its H and its A in the trace."""
    d_model, h, d_v = case.X.shape[-1], case.h, 2
    w = weights_of(lib, case)
    context = lib(normal(case.seed, case.X.shape[0], N_k, d_model))
    trace = multi_head_attention(lib(case.X), w, context=context)
    for a in range(h):
        wide, narrow = (slice(a * d, (a + 1) * d) for d in (d_model // h, d_v))
        Q = project(lib(case.X), w.W_Q[:, wide], w.b_Q[wide])
        K = project(context, w.W_K[:, wide], w.b_K[wide])
        V = project(context, w.W_V[:, narrow], w.b_V[narrow])
        head = attention(Q, K, V)
        assert_close(trace.A[:, a], head.A)
        assert_close(trace.H[:, a], head.H)


@given(case=tokens())
def test_output_is_a_sum_over_heads(lib, case):
    """Concat, then W_O, equals the sum of each head's output through its rows of W_O."""
    w = weights_of(lib, case)
    trace = multi_head_attention(lib(case.X), w)
    d_v = trace.H.shape[-1]
    total = sum(to_numpy(trace.H[:, a]) @ to_numpy(w.W_O[a * d_v : (a + 1) * d_v]) for a in range(case.h))
    assert_close(trace.output, total + to_numpy(w.b_O))


@given(case=tokens(), seed=seeds)
def test_order_of_heads_does_not_matter(lib, case, seed):
    order = np.random.default_rng(seed).permutation(case.h)
    w = weights_of(lib, case)
    columns = {
        name: (np.arange(getattr(w, name).shape[1]).reshape(case.h, -1)[order]).ravel()
        for name in ("W_Q", "W_K", "W_V")
    }
    moved = {name: getattr(w, name)[:, c] for name, c in columns.items()}
    moved |= {name.replace("W", "b"): getattr(w, name.replace("W", "b"))[c] for name, c in columns.items()}
    other = MultiHeadWeights(**moved, W_O=w.W_O[columns["W_V"]], b_O=w.b_O, h=case.h)
    assert_close(multi_head_attention(lib(case.X), other).output, multi_head_attention(lib(case.X), w).output)


@given(case=tokens(), seed=seeds)
def test_permuting_tokens_permutes_outputs(lib, case, seed):
    """Without positions attention does not know the order of its tokens."""
    order = np.random.default_rng(seed).permutation(case.X.shape[1])
    assert_close(run(lib, case, case.X[:, order]).output, to_numpy(run(lib, case).output)[:, order])


@given(case=tokens())
def test_each_sentence_equals_its_own_run(lib, case):
    mask = np.random.default_rng(case.seed).random((*case.X.shape[:2], case.X.shape[1])) < 0.6
    together = run(lib, case, mask=lib(mask))
    for i in range(len(case.X)):
        alone = run(lib, case, case.X[i : i + 1], mask=lib(mask[i]))
        for name in together.shapes():
            assert_close(getattr(together, name)[i], getattr(alone, name)[0])


@given(case=tokens(), t=st.integers(0, 5))
def test_causal_output_ignores_later_tokens(lib, case, t):
    N = case.X.shape[1]
    X = case.X.copy()
    X[:, t:] = 100 * normal(case.seed + 9, *X[:, t:].shape)
    mask = causal_mask(N)
    before, after = run(lib, case, mask=mask).output, run(lib, case, X, mask=mask).output
    assert_close(before[:, :t], after[:, :t])
    if t < N:
        assert np.abs(to_numpy(before - after)[:, t:]).max() > 1e-6


@given(case=tokens())
def test_one_token_at_a_time_equals_the_causal_run(lib, case):
    """The last query of a longer sentence sees every key: causal masks align at the end."""
    N, w = case.X.shape[1], weights_of(lib, case)
    whole = run(lib, case, mask=causal_mask(N)).output
    for t in range(1, N + 1):
        context = lib(case.X[:, :t])
        step = multi_head_attention(lib(case.X[:, t - 1 : t]), w, context=context, mask=causal_mask(1, t))
        assert_close(step.output[:, 0], whole[:, t - 1])


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e30])
@given(case=tokens(), extra=st.integers(1, 3), left=st.booleans())
def test_padding_changes_no_real_token(lib, garbage, case, extra, left):
    """Whatever stands at padded places, on the left or on the right, real tokens come out the same."""
    padding = np.full((len(case.X), extra, case.X.shape[2]), garbage)
    parts = [padding, case.X] if left else [case.X, padding]
    real = slice(extra, None) if left else slice(case.X.shape[1])
    T = np.zeros((len(case.X), case.X.shape[1] + extra), dtype=int)
    T[:, real] = 7
    mask = padding_mask(T, pad_id=0)
    with np.errstate(over="ignore", invalid="ignore"):  # the query of a padded token with 1e30 may overflow
        padded = run(lib, case, np.concatenate(parts, axis=1), mask=mask)
    assert_close(padded.output[:, real], run(lib, case).output)
    if garbage != 1e30:
        assert np.isfinite(to_numpy(padded.output)).all()


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
@given(case=tokens(), N_k=sizes)
def test_unread_context_never_reaches_a_gradient(garbage, case, N_k):
    mask = np.random.default_rng(case.seed).random((len(case.X), case.X.shape[1], N_k)) < 0.3
    clean = normal(case.seed, len(case.X), N_k, case.X.shape[2])
    dirty = np.where(mask.any(axis=1)[..., None], clean, garbage)
    w = weights_of(torch.tensor, case)

    def output(X, context, *arrays):
        other = MultiHeadWeights(**dict(zip(w.arrays(), arrays, strict=True)), h=case.h)
        return multi_head_attention(X, other, context=context, mask=mask).output

    expected = gradients(output, case.X, clean, *w.arrays().values())
    for x, y in zip(gradients(output, case.X, dirty, *w.arrays().values()), expected, strict=True):
        assert_close(x, y)


@given(case=tokens())
def test_one_head_is_single_head_attention(lib, case):
    case = case._replace(h=1)
    w = weights_of(lib, case)
    trace = multi_head_attention(lib(case.X), w)
    Q, K, V = (project(lib(case.X), getattr(w, f"W_{x}"), getattr(w, f"b_{x}")) for x in "QKV")
    assert_close(trace.output, project(attention(Q, K, V).H, w.W_O, w.b_O))


@settings(max_examples=8)
@given(case=tokens(), N_k=sizes)
def test_all_forms_of_a_mask_agree(lib, case, N_k):
    """[N_q, N_k], [1, N_q, N_k] and [B, h, N_q, N_k]; and [B, 1, N_k] as [B, N_q, N_k]. The same for bias."""
    B, N_q, d_model = case.X.shape
    rng = np.random.default_rng(case.seed)
    context = lib(rng.normal(size=(B, N_k, d_model)))
    for mask, full in [
        (m := rng.random((N_q, N_k)) < 0.5, np.broadcast_to(m, (B, case.h, N_q, N_k))),
        (m[None], np.broadcast_to(m, (B, case.h, N_q, N_k))),
        (m := rng.random((B, 1, N_k)) < 0.5, np.broadcast_to(m[:, None], (B, case.h, N_q, N_k))),
        (m := rng.random((B, N_q, N_k)) < 0.5, np.broadcast_to(m[:, None], (B, case.h, N_q, N_k))),
    ]:
        expected = run(lib, case, context=context, mask=lib(full)).output
        assert_close(run(lib, case, context=context, mask=lib(mask)).output, expected)
        bias = np.where(mask, 0.0, -np.inf)
        assert_close(run(lib, case, context=context, bias=lib(bias)).output, expected)


@given(case=tokens())
def test_a_mask_may_differ_between_heads(lib, case):
    N = case.X.shape[1]
    mask = np.random.default_rng(case.seed).random((len(case.X), case.h, N, N)) < 0.5
    trace = run(lib, case, mask=lib(mask))
    assert (to_numpy(trace.A)[~mask] == 0).all()
    assert_close(to_numpy(trace.A).sum(axis=-1), mask.any(axis=-1).astype(float))


@given(case=tokens())
def test_a_nan_that_one_head_reads_shows_in_that_head_only(lib, case):
    assume(case.h > 1)
    N = case.X.shape[1]
    X = case.X.copy()
    X[:, 0] = np.nan
    mask = np.ones((1, case.h, N, N), dtype=bool)
    mask[:, 1:, :, 0] = False
    context = lib(X)
    H = to_numpy(run(lib, case, context=context, mask=lib(mask)).H)
    assert np.isnan(H[:, 0]).all()
    assert np.isfinite(H[:, 1:]).all()


@given(B=sizes, N=sizes, h=sizes, d_h=sizes)
def test_shapes_are_those_of_the_table(lib, B, N, h, d_h):
    w = MultiHeadWeights(*map(lib, list(MultiHeadWeights.random(h * d_h, h, seed=0).arrays().values())), h)
    trace = multi_head_attention(lib(np.ones((B, N, h * d_h))), w)
    assert trace.shapes() == shape_table(B, N, h * d_h, h)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(case=tokens())
def test_keeps_dtype_and_library(lib, dtype, case):
    mask = causal_mask(case.X.shape[1])
    w = weights_of(lib, case, dtype=dtype)
    trace = multi_head_attention(lib(case.X.astype(dtype)), w, mask=mask)
    values = [getattr(trace, name) for name in trace.shapes()]
    assert all(lib.owns(x) and x.dtype == lib.dtype(dtype) for x in values)


@given(case=tokens())
def test_keeps_bfloat16(case):
    def as_bfloat16(x):
        return torch.tensor(x).bfloat16()

    w = weights_of(as_bfloat16, case)
    trace = multi_head_attention(as_bfloat16(case.X), w, mask=causal_mask(case.X.shape[1]))
    assert all(getattr(trace, name).dtype == torch.bfloat16 for name in trace.shapes())
    assert trace.output.isfinite().all()


@given(case=tokens())
def test_inputs_are_never_changed(case):
    def frozen(x):
        x = np.array(x)
        x.flags.writeable = False
        return x

    w, X, mask = weights_of(frozen, case), frozen(case.X), frozen(causal_mask(case.X.shape[1]))
    multi_head_attention(X, w, context=X, mask=mask, bias=frozen(mask.astype(float)))
    np.testing.assert_array_equal(X, case.X)


@given(case=tokens())
def test_memory_layout_does_not_matter(case):
    expected = run(np.array, case).output
    assert_close(run(np.asfortranarray, case, np.asfortranarray(case.X)).output, expected)
    assert_close(run(lambda x: np.flip(np.flip(x).copy()), case).output, expected)
    assert_close(run(torch.tensor, case).output, expected)

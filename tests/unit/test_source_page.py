"""The facts, shapes and worked numbers of the page that the book grew out of."""

import numpy as np
import pytest
from support import assert_close

from attnlib import (
    MultiHeadWeights,
    add_positions,
    apply_mask,
    attention,
    causal_mask,
    check_shapes,
    concat_heads,
    embed,
    example,
    multi_head_attention,
    padding_mask,
    project,
    scores,
    shape_table,
    sinusoidal_positions,
    softmax,
    split_heads,
)

B, N, D_MODEL, HEADS, D_H = 2, 5, 12, 3, 4
TABLE = {
    "X": (2, 5, 12),
    "Q": (2, 3, 5, 4),
    "K": (2, 3, 5, 4),
    "V": (2, 3, 5, 4),
    "S": (2, 3, 5, 5),
    "S_masked": (2, 3, 5, 5),
    "A": (2, 3, 5, 5),
    "H": (2, 3, 5, 4),
    "concat": (2, 5, 12),
    "output": (2, 5, 12),
}


def test_the_table_of_shapes():
    assert shape_table(B, N, D_MODEL, HEADS) == TABLE
    assert list(shape_table(B, N, D_MODEL, HEADS)) == list(TABLE)  # in the order of the pipeline
    assert D_MODEL == HEADS * D_H


def test_a_run_has_the_shapes_of_the_table(rng):
    trace = multi_head_attention(rng.normal(size=(B, N, D_MODEL)), MultiHeadWeights.random(D_MODEL, HEADS, seed=0))
    assert trace.shapes() == TABLE
    check_shapes(trace)


def test_the_inputs_have_the_shapes_of_the_page(rng):
    """T [B, N], E [|E|, d_model], X_tok [B, N, d_model], X_pos [1, N, d_model], X [B, N, d_model]."""
    T, E = rng.integers(9, size=(B, N)), rng.normal(size=(9, D_MODEL))
    X_tok, X_pos = embed(T, E), sinusoidal_positions(N, D_MODEL)
    assert X_tok.shape == (B, N, D_MODEL)
    assert X_pos.shape == (1, N, D_MODEL)
    assert_close(add_positions(X_tok, X_pos), X_tok + X_pos)
    assert_close(add_positions(X_tok, X_tok), 2 * X_tok)  # X_pos may also be [B, N, d_model]


def test_one_head_step_by_step(rng):
    """X, then Q, K, V, S, A and H, each from its formula; H_i is a sum over j of A_ij v_j."""
    X, (W_Q, W_K, W_V) = rng.normal(size=(B, N, D_MODEL)), rng.normal(size=(3, D_MODEL, D_H))
    Q, K, V = project(X, W_Q), project(X, W_K), project(X, W_V)
    assert Q.shape == K.shape == V.shape == (B, N, D_H)
    S, A = scores(Q, K), softmax(scores(Q, K))
    assert S.shape == A.shape == (B, N, N)
    assert S[1, 2, 3] == pytest.approx(Q[1, 2] @ K[1, 3] / np.sqrt(D_H))  # position 2 looks at position 3
    assert_close(A.sum(axis=-1), np.ones((B, N)))
    H = attention(Q, K, V).H
    assert H.shape == (B, N, D_H)
    assert_close(H[1, 2], sum(A[1, 2, j] * V[1, j] for j in range(N)))


def test_many_heads_step_by_step(rng):
    """H_a = Attention(Q_a, K_a, V_a), concat, and W_O."""
    X, weights = rng.normal(size=(B, N, D_MODEL)), MultiHeadWeights.random(D_MODEL, HEADS, seed=0)
    Q, K, V = (split_heads(project(X, W), HEADS) for W in (weights.W_Q, weights.W_K, weights.W_V))
    H = np.stack([attention(Q[:, a], K[:, a], V[:, a]).H for a in range(HEADS)], axis=1)
    output = concat_heads(H) @ weights.W_O
    assert_close(multi_head_attention(X, weights).output, output)


@pytest.mark.parametrize("d_h", [4, 16, 64, 256])
def test_variance_of_products_is_d_h_and_of_scores_1(rng, d_h):
    Q, K = rng.normal(size=(2, 20000, 1, d_h))
    assert scores(Q, K, scale=1.0).var() == pytest.approx(d_h, rel=0.05)
    assert scores(Q, K).var() == pytest.approx(1, rel=0.05)


def test_large_scores_bring_weights_near_one_hot_and_gradients_near_0(rng):
    """Without 1/sqrt(d_h); the derivative of A_ij by S_ij is A_ij (1 - A_ij)."""
    Q, K = rng.normal(size=(2, 200, 8, 512))
    sharp, even = softmax(scores(Q, K, scale=1.0)), softmax(scores(Q, K))
    assert np.median(sharp.max(axis=-1)) > 0.999
    assert np.median(even.max(axis=-1)) < 0.6
    assert np.median((sharp * (1 - sharp)).max(axis=-1)) < 0.001 < 0.1 < np.median((even * (1 - even)).max(axis=-1))


def test_causal_mask_is_minus_infinity_above_the_diagonal(rng):
    S = rng.normal(size=(N, N))
    S_masked = apply_mask(S, causal_mask(N))
    for i in range(N):
        for j in range(N):
            assert S_masked[i, j] == (S[i, j] if j <= i else -np.inf)
    assert (softmax(S_masked)[~causal_mask(N)] == 0).all()


def test_padding_mask_ignores_padding_in_both_directions():
    A = softmax(apply_mask(np.zeros((1, 3, 3)), padding_mask(np.array([[4, 7, 0]]), pad_id=0)))
    assert_close(A, [[[0.5, 0.5, 0]] * 3])


def test_an_output_token_depends_on_other_tokens_and_an_input_token_does_not(rng):
    X, weights = rng.normal(size=(1, N, D_MODEL)), MultiHeadWeights.random(D_MODEL, HEADS, seed=0)
    other = X.copy()
    other[:, 4] += 1
    before, after = multi_head_attention(X, weights), multi_head_attention(other, weights)
    np.testing.assert_array_equal(before.X[:, :4], after.X[:, :4])
    assert (before.output[:, 0] != after.output[:, 0]).all()


# The running example of the book


def test_running_example_is_a_sentence_of_seven_tokens():
    e = example()
    assert e.tokens == ("the", "bank", "by", "the", "river", "was", "steep")
    assert e.vocabulary.decode(e.T[0]) == list(e.tokens)
    assert e.T[0, 0] == e.T[0, 3]  # "the" twice: one id, one embedding, two positions
    np.testing.assert_array_equal(e.X_tok[0, 0], e.X_tok[0, 3])
    assert (e.X[0, 0] != e.X[0, 3]).any()


def test_running_example_has_a_second_sentence_with_the_same_bank_and_padding():
    e = example()
    first, second = (e.vocabulary.decode(row) for row in e.T_pair)
    assert first[1] == second[1] == "bank"
    assert second[5:] == ["[PAD]", "[PAD]"]
    assert padding_mask(e.T_pair, e.vocabulary.pad_id).sum() == 12


def test_running_example_is_made_by_the_functions_of_the_book():
    e = example()
    np.testing.assert_array_equal(e.X_tok, embed(e.T, e.E))
    np.testing.assert_array_equal(e.X, add_positions(e.X_tok, e.X_pos))
    assert (e.weights.h, e.weights.W_Q.shape) == (3, (12, 12))
    assert multi_head_attention(e.X, e.weights).shapes()["A"] == (1, 3, 7, 7)


def test_running_example_is_fresh_in_every_call():
    one, two = example(), example()
    one.X[...] = 0
    assert (two.X != 0).any()
    np.testing.assert_array_equal(two.X, example().X)

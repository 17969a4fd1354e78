"""The checks of chapter 6 accept what is right in another form, and each suspect breaks one property of its own."""

import numpy as np
import pytest

from attnlib import causal_mask, check_shapes, multi_head_attention, split_heads
from attnlib.exercises import CATALOGUE, SUSPECTS
from attnlib.exercises._checking import judge
from attnlib.exercises.multi_head import _WEIGHTS, _property_cases

X = np.random.default_rng(3).normal(size=(4, 5, 12))
MASK = causal_mask(5)


def equivariant(attend):
    order = np.random.default_rng(0).permutation(5)
    return bool(np.allclose(attend(X[:, order]), attend(X)[:, order]))


def causal(attend):
    changed = [np.concatenate([X[:, :n], -X[:, n:]], axis=1) for n in range(1, 5)]
    return all(np.allclose(attend(Y, MASK)[:, :n], attend(X, MASK)[:, :n]) for n, Y in enumerate(changed, start=1))


def separate(attend):
    return all(np.allclose(attend(X, MASK)[b], attend(X[b : b + 1], MASK)[0]) for b in range(4))


def split_by_loops(X, h):
    B, N, d_model = X.shape
    d_h = d_model // h
    heads = np.zeros((B, h, N, d_h))
    for b in range(B):
        for a in range(h):
            for i in range(N):
                heads[b, a, i] = X[b, i, a * d_h : (a + 1) * d_h]
    return heads


RIGHT = {
    "split": [
        split_by_loops,
        lambda X, h: np.stack(np.split(X, h, axis=-1), axis=1),
        lambda X, h: np.einsum("bnad->band", X.reshape(*X.shape[:2], h, -1)),
        lambda X, h: [[piece.tolist() for piece in np.split(sentence, h, axis=-1)] for sentence in X],
    ],
    "contributions": [
        lambda H, W_O: np.einsum("bhnd,hdm->bhnm", H, W_O.reshape(H.shape[1], H.shape[3], -1)),
        lambda H, W_O: np.stack(
            [H[:, a] @ W_O[a * H.shape[3] : (a + 1) * H.shape[3]] for a in range(H.shape[1])], axis=1
        ),
    ],
    "properties": [
        lambda attend: (equivariant(attend), causal(attend), separate(attend)),
        lambda attend: [equivariant(attend), causal(attend), separate(attend)],
    ],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, right in RIGHT.items() for i in range(len(right))])
def test_right_in_another_form_passes(name, number):
    result = judge(CATALOGUE[name], RIGHT[name][number])
    assert result, result.message


@pytest.mark.parametrize("name", SUSPECTS)
def test_each_suspect_has_the_right_shape_and_one_broken_property(name):
    attend = SUSPECTS[name]
    assert attend(X).shape == attend(X, MASK).shape == X.shape
    broken = {"A": "equivariant", "B": "causal", "C": "separate"}[name]
    for found in (equivariant, causal, separate):
        assert found(attend) == (found.__name__ != broken)
    assert not np.allclose(attend(X), multi_head_attention(X, _WEIGHTS).output)


def test_suspects_agree_with_a_right_implementation_where_their_bug_cannot_show():
    one_token = X[:, :1]
    right = multi_head_attention(one_token, _WEIGHTS)
    check_shapes(right)
    np.testing.assert_allclose(SUSPECTS["B"](one_token), right.output)  # one query: its column sums to 1, too
    one_sentence = X[:1]
    np.testing.assert_allclose(SUSPECTS["C"](one_sentence), multi_head_attention(one_sentence, _WEIGHTS).output)


def test_implementations_are_named_without_an_address():
    for (attend,) in _property_cases(np.random.default_rng(0)):
        assert "0x" not in repr(attend)
    assert repr(SUSPECTS["A"]) == "suspect A"


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("split", lambda X, h: split_heads(X, h)[:, ::-1], "token 0 of head 0 is not the beginning of token 0"),
        ("split", lambda X, h: split_heads(X, h)[..., :1], "has shape [2, 3, 7, 1], but should have [2, 3, 7, 5]"),
        ("contributions", lambda H, W_O: H @ W_O.reshape(H.shape[1], H.shape[3], -1) * 2, "do not add up"),
        ("properties", lambda attend: (False, False, False), "shuffled tokens do not give shuffled outputs, but here"),
        ("properties", lambda attend: (True, True), "has shape [2], but should have [3]"),
        (
            "properties",
            lambda attend: (equivariant(attend), causal(attend), attend.name != "suspect B"),
            "on attend = suspect B you",
        ),
    ],
)
def test_what_is_not_in_the_catalogue_gets_a_sentence_that_helps(name, wrong, message):
    result = judge(CATALOGUE[name], wrong)
    assert not result
    assert result.mistake is None
    assert message in result.message


def test_a_shuffle_of_three_tokens_is_called_too_regular():
    three = X[:, :3]

    def shuffles_three(attend):
        order = [2, 0, 1]
        return bool(np.allclose(attend(three[:, order]), attend(three)[:, order])), causal(attend), separate(attend)

    result = judge(CATALOGUE["properties"], shuffles_three)
    assert result.mistake == "too regular a shuffle"


def test_a_causal_mask_that_is_forgotten_is_not_called_an_output_too_many():
    def without_mask(attend):
        changed = np.concatenate([X[:, :4], -X[:, 4:]], axis=1)
        return equivariant(attend), bool(np.allclose(attend(changed)[:, :4], attend(X)[:, :4])), separate(attend)

    assert judge(CATALOGUE["properties"], without_mask).mistake == "no past is kept"

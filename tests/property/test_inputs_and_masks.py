"""Laws of ids, embeddings, positions and masks."""

import numpy as np
from cases import normal, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from support import assert_close, to_numpy

from attnlib import Vocabulary, add_positions, causal_mask, embed, padding_mask, sinusoidal_positions

words = st.text("abcdefg", min_size=1, max_size=4)


@given(sentences=st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=4))
def test_decoding_gives_the_words_back(sentences):
    vocabulary = Vocabulary(dict.fromkeys(["[PAD]", *(w for s in sentences for w in s)]))
    T = vocabulary.encode_batch(sentences)
    for row, sentence in zip(T, sentences, strict=True):
        assert vocabulary.decode(row[: len(sentence)]) == sentence
        assert set(vocabulary.decode(row[len(sentence) :])) <= {"[PAD]"}
    real = padding_mask(T, vocabulary.pad_id).sum(axis=(1, 2))
    assert list(real) == [len(s) for s in sentences]


@given(seed=seeds, B=sizes, N=sizes, vocab_size=sizes)
def test_embedding_is_a_product_with_one_hot_rows(lib, seed, B, N, vocab_size):
    E = normal(seed, vocab_size, 3)
    T = np.random.default_rng(seed).integers(vocab_size, size=(B, N))
    X_tok = embed(lib(T), lib(E))
    assert lib.owns(X_tok)
    assert_close(X_tok, np.eye(vocab_size)[T] @ E)


@given(N=st.integers(1, 60), pairs=st.integers(1, 10), shift=st.integers(0, 500))
def test_products_of_position_vectors_depend_on_distance_only(N, pairs, shift):
    X_pos = sinusoidal_positions(N + shift, 2 * pairs)[0]
    here, there = X_pos[:N], X_pos[shift : shift + N]
    assert_close(there @ there.T, here @ here.T, atol=1e-11)
    assert_close((X_pos**2).sum(axis=-1), np.full(N + shift, float(pairs)))


@given(N=sizes, longer=sizes, pairs=sizes)
def test_a_position_does_not_depend_on_the_length(N, longer, pairs):
    assert_close(sinusoidal_positions(N + longer, 2 * pairs)[:, :N], sinusoidal_positions(N, 2 * pairs), atol=0)


@given(seed=seeds, B=sizes, N=sizes)
def test_positions_are_the_same_for_every_sentence(lib, seed, B, N):
    X_tok = normal(seed, B, N, 4)
    X = add_positions(lib(X_tok), sinusoidal_positions(N, 4, like=lib(X_tok)))
    assert lib.owns(X)
    assert_close(to_numpy(X) - X_tok, np.repeat(sinusoidal_positions(N, 4), B, axis=0))


@given(N_q=st.integers(0, 8), N_k=st.integers(0, 8))
def test_causal_mask_is_the_end_of_a_longer_one(lib, N_q, N_k):
    """The last N_q rows and N_k columns of any larger square: this is what a cache needs."""
    mask = causal_mask(N_q, N_k, like=lib(np.zeros(1)))
    assert lib.owns(mask)
    longer = np.tril(np.ones((8, 8), dtype=bool))
    np.testing.assert_array_equal(to_numpy(mask), longer[8 - N_q :, 8 - N_k :])


@given(seed=seeds, B=sizes, N=sizes, pad_id=st.integers(0, 300))
def test_padding_mask_compares_ids(lib, seed, B, N, pad_id):
    T = np.random.default_rng(seed).choice([0, 5, 44, 256, pad_id], size=(B, N))
    mask = padding_mask(lib(T), pad_id)
    assert mask.shape == (B, 1, N)
    np.testing.assert_array_equal(to_numpy(mask)[:, 0], T != pad_id)

"""Chapter 1: from words to vectors. Ids, the embedding table, positions, and their sum X."""

from collections.abc import Iterable, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np
from jaxtyping import Float, Integer

from attnlib._arrays import (
    as_ids,
    as_library_of,
    check_axes,
    check_same,
    check_whole,
    floating_namespace,
    namespace,
    new_array_namespace,
    shape_of,
)


class Vocabulary:
    """The words a model knows; the id of a word is its place in the list.

    Parameters
    ----------
    words : iterable of str
        Distinct words. One of them is `pad`.
    pad : str
        The padding token, which fills short sentences up to the length of the longest.

    Attributes
    ----------
    words : tuple of str
    pad_id : int

    Raises
    ------
    TypeError, ValueError
        A word is no str or occurs twice, or `pad` is not among the words.

    Examples
    --------
    >>> vocabulary = Vocabulary(["[PAD]", "the", "river", "bank"])
    >>> vocabulary.encode("the river bank")
    array([1, 2, 3])
    >>> vocabulary.encode_batch(["the river bank", "the bank"])
    array([[1, 2, 3],
           [1, 3, 0]])
    >>> vocabulary.decode([1, 3, 0])
    ['the', 'bank', '[PAD]']
    """

    def __init__(self, words: Iterable[str], pad: str = "[PAD]"):
        self.words = tuple(words)
        for word in self.words:
            if not isinstance(word, str):
                raise TypeError(f"Every word must be a str, but {word!r} is {type(word).__name__}.")
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = next(word for i, word in enumerate(self.words) if self._ids[word] != i)
            raise ValueError(f"The word {twice!r} stands in the vocabulary twice, so it has two ids.")
        if pad not in self._ids:
            raise ValueError(f"The padding token {pad!r} is not in the vocabulary.")
        self.pad_id = self._ids[pad]

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary of {len(self)} words, pad_id {self.pad_id}"

    def encode(self, text: str | Sequence[str]) -> np.ndarray:
        """Return the ids, shape (N,), of a sentence (split at blanks) or of a list of tokens."""
        if not isinstance(text, Iterable):
            raise TypeError(f"encode takes a sentence or a list of tokens, not {type(text).__name__}.")
        tokens = text.split() if isinstance(text, str) else list(text)
        for token in tokens:
            if not isinstance(token, str) or token not in self._ids:
                raise KeyError(f"{token!r} is not in the vocabulary of {len(self)} words.")
        return np.array([self._ids[token] for token in tokens], dtype=np.int64)

    def encode_batch(self, texts: Sequence[str | Sequence[str]]) -> np.ndarray:
        """Return the ids T, shape (B, N), of several sentences, padded on the right to the longest."""
        texts = [] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
        if not texts:
            raise ValueError("encode_batch takes a list of one or more sentences; use encode for a single one.")
        rows = [self.encode(text) for text in texts]
        T = np.full((len(rows), max(len(row) for row in rows)), self.pad_id, dtype=np.int64)
        for i, row in enumerate(rows):
            T[i, : len(row)] = row
        return T

    def decode(self, ids: Integer[Any, " N"] | Sequence[int]) -> list[str]:
        """Return the words of a row of ids, padding included."""
        ids = ids.tolist() if compat.is_array_api_obj(ids) else ids
        if not isinstance(ids, Iterable):
            raise TypeError(f"decode takes a row of ids, not {ids!r}.")
        ids = [check_whole(f"ids[{place}]", i) for place, i in enumerate(ids)]
        for place, i in enumerate(ids):
            if not 0 <= i < len(self):
                raise IndexError(f"ids[{place}] is {i}, but ids run from 0 to {len(self) - 1}.")
        return [self.words[i] for i in ids]


def embed(T: Integer[Any, "*b N"], E: Float[Any, "vocab_size d_model"]) -> Float[Any, "*b N d_model"]:
    r"""Look up the row of the embedding table for each token id.

    .. math:: X_\mathrm{tok} = E[T]

    Parameters
    ----------
    T : integer array, shape (..., N)
        Token ids from 0 to vocab_size - 1.
    E : array, shape (vocab_size, d_model)
        One row a word.

    Returns
    -------
    array, shape (..., N, d_model)
        X_tok, of the library and dtype of E.

    Raises
    ------
    IndexError
        An id is negative or too large. (NumPy alone would read -1 as the last word.)
    TypeError
        T does not hold integers, or E does not hold floating-point numbers.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> embed(np.array([2, 1, 2]), E)
    array([[3., 4.],
           [1., 2.],
           [3., 4.]])
    """
    floating_namespace(E=E)
    check_axes("E", E, "vocab_size d_model", exactly=True)
    T = as_library_of(T, E)
    namespace(T=T, E=E)
    return E[check_ids(T, vocab_size=E.shape[0])]


def check_ids(T: Any, vocab_size: int) -> Any:
    """Return T as int64; raise unless it holds integers from 0 to vocab_size - 1, and name the first that is not."""
    xp = namespace(T=T)
    ids = as_ids(T)
    wrong = xp.nonzero((ids < 0) | (ids >= vocab_size))
    if wrong[0].shape[0]:
        place = tuple(int(axis[0]) for axis in wrong)
        raise IndexError(
            f"T[{', '.join(map(str, place))}] is {int(T[place])}, but with vocab_size = {vocab_size} "
            f"ids run from 0 to {vocab_size - 1}."
        )
    return ids


def sinusoidal_positions(N: int, d_model: int, *, like: Any = None) -> Float[Any, "1 N d_model"]:
    r"""Give each position a vector of sines and cosines of falling frequency.

    .. math::

        \mathrm{pos}_{p,2i} = \sin\frac{p}{10000^{2i/d_\mathrm{model}}}, \qquad
        \mathrm{pos}_{p,2i+1} = \cos\frac{p}{10000^{2i/d_\mathrm{model}}}

    Parameters
    ----------
    N : int
        Number of positions, counted from 0.
    d_model : int
        Width of a vector; even, since sine and cosine come in pairs.
    like : array, optional
        Gives the library, device and (if floating) dtype. Without it: NumPy, float64.

    Returns
    -------
    array, shape (1, N, d_model)
        X_pos. Even columns are sines, odd columns cosines (the layout of the paper; others put
        all sines first). The leading axis lets it be added to any batch.

    Raises
    ------
    ValueError
        d_model is odd or below 2, or N is negative.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(2, 4).round(4)
    array([[[0.    , 1.    , 0.    , 1.    ],
            [0.8415, 0.5403, 0.01  , 1.    ]]])
    """
    N = check_whole("N", N, least=0)
    d_model = check_whole("d_model", d_model, least=2)
    if d_model % 2:
        raise ValueError(f"d_model must be even, since each frequency takes a sine and a cosine; it is {d_model}.")
    xp, device = new_array_namespace(like)
    angle = np.arange(N)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    X_pos = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(1, N, d_model)
    dtype = like.dtype if like is not None and xp.isdtype(like.dtype, "real floating") else xp.float64
    return xp.asarray(X_pos, dtype=dtype, device=device)


def add_positions(X_tok: Float[Any, "B N d_model"], X_pos: Float[Any, "#B N d_model"]) -> Float[Any, "B N d_model"]:
    r"""Add each token's position vector to its embedding.

    .. math:: X = X_\mathrm{tok} + X_\mathrm{pos}

    Parameters
    ----------
    X_tok : array, shape (B, N, d_model)
        Token embeddings.
    X_pos : array, shape (1, N, d_model) or (B, N, d_model)
        Position vectors: the same for every sentence, or one set for each.

    Returns
    -------
    array, shape (B, N, d_model)
        X, the input of attention.

    Raises
    ------
    ValueError
        An axis disagrees; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> add_positions(np.ones((2, 3, 4)), sinusoidal_positions(3, 4))[0, 1].round(4)
    array([1.8415, 1.5403, 1.01  , 2.    ])
    """
    floating_namespace(X_tok=X_tok, X_pos=X_pos)
    check_axes("X_tok", X_tok, "B N d_model", exactly=True)
    check_axes("X_pos", X_pos, "B N d_model", exactly=True)
    check_same("N", X_tok=X_tok.shape[1], X_pos=X_pos.shape[1])
    check_same("d_model", X_tok=X_tok.shape[2], X_pos=X_pos.shape[2])
    if X_pos.shape[0] not in (1, X_tok.shape[0]):
        raise ValueError(f"X_pos has shape {shape_of(X_pos)}: its first axis must be 1 or B = {X_tok.shape[0]}.")
    return X_tok + X_pos

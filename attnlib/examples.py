"""The running example of the book: one sentence, its vocabulary, its tables, one set of weights."""

from dataclasses import dataclass

import numpy as np

from attnlib.inputs import Vocabulary, add_positions, embed, sinusoidal_positions
from attnlib.multi_head import MultiHeadWeights

SENTENCE = "the bank by the river was steep"
OTHER_SENTENCE = "the bank raised the rate"
D_MODEL, HEADS = 12, 3


@dataclass(frozen=True, eq=False, repr=False)
class Example:
    """One sentence on its way into attention, and the weights that wait for it.

    Attributes
    ----------
    tokens : tuple of str
        The N = 7 words of the running sentence. "the" stands there twice.
    vocabulary : Vocabulary
    T : array, shape (1, 7)
        Its ids.
    T_pair : array, shape (2, 7)
        The ids of the running sentence and of a second one, in which the same "bank" at the same place
        means something else; the second is padded by two tokens.
    E : array, shape (vocab_size, 12)
        The embedding table: standard normal numbers.
    X_tok, X_pos, X : array, shape (1, 7, 12)
        Token vectors, position vectors, and their sum.
    weights : MultiHeadWeights
        For three heads of width 4. Read as one head of width 12, the same matrices serve chapters 2 to 5.
    """

    tokens: tuple[str, ...]
    vocabulary: Vocabulary
    T: np.ndarray
    T_pair: np.ndarray
    E: np.ndarray
    X_tok: np.ndarray
    X_pos: np.ndarray
    X: np.ndarray
    weights: MultiHeadWeights

    def __repr__(self) -> str:
        return f"Example({' '.join(self.tokens)!r}, d_model={self.E.shape[1]}, h={self.weights.h})"


def example() -> Example:
    """Return the running example. Every call gives the same fresh arrays; nothing in them was trained.

    Examples
    --------
    >>> example()
    Example('the bank by the river was steep', d_model=12, h=3)
    >>> example().T
    array([[1, 2, 3, 1, 4, 5, 6]])
    """
    sentences = [SENTENCE, OTHER_SENTENCE]
    words = dict.fromkeys(" ".join(sentences).split())  # distinct words in order of appearance
    vocabulary = Vocabulary(["[PAD]", *words])
    T_pair = vocabulary.encode_batch(sentences)
    T = T_pair[:1]
    E = np.random.default_rng(0).normal(size=(len(vocabulary), D_MODEL))
    X_tok = embed(T, E)
    X_pos = sinusoidal_positions(T.shape[1], D_MODEL)
    X = add_positions(X_tok, X_pos)
    weights = MultiHeadWeights.random(D_MODEL, HEADS, seed=1)
    return Example(tuple(SENTENCE.split()), vocabulary, T, T_pair, E, X_tok, X_pos, X, weights)

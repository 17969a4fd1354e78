"""The museum of chapter 9: whole attentions with one part replaced by a mistake.

Where an exercise recognises the same mistake, its function and its hint are built in. The rest can only be made in a
whole pipeline.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np

from attnlib.exercises._checking import Exercise, Mistake
from attnlib.exercises.masks import CAUSAL_MASK, MASKED_SOFTMAX, PADDING_MASK
from attnlib.exercises.multi_head import SPLIT
from attnlib.masks import apply_mask, causal_mask, padding_mask
from attnlib.multi_head import MultiHeadWeights, concat_heads, split_heads
from attnlib.properties import attend_right
from attnlib.single_head import softmax

# ---------------------------------------------------------------------------------------------------------------------
# A pipeline with replaceable parts
# ---------------------------------------------------------------------------------------------------------------------


def _swap(Z: Any) -> Any:
    return Z.swapaxes(-1, -2)


def _masked_softmax(S: Any, mask: Any) -> Any:
    return softmax(apply_mask(S, mask))


@dataclass(frozen=True)
class Pipeline:
    """Multi-head attention in plain steps, each of which can be replaced: ``Pipeline(scale=lambda *sizes: 1)``.

    Attributes
    ----------
    matrices : callable
        (W_Q, W_K, W_V, W_O) to the four that are used.
    split : callable
        (Z, h) to heads, [B, N, d_model] to [B, h, N, d_h].
    swap_roles : callable
        (Q, K, V) to the three that are used.
    transpose : callable
        K to K_T, [B, h, N_k, d_h] to [B, h, d_h, N_k].
    compare : callable
        (Q, K_T) to dot products.
    scale : callable
        (d_h, d_model, N_k) to the factor of the dot products.
    causal, padding : callable
        (N_q, N_k), and (T, pad_id), to a mask: those of `causal_mask` and `padding_mask`.
    weigh : callable
        (S, mask) to A.
    read : callable
        (A, V) to H.
    merge : callable
        H to concat, [B, h, N, d_h] to [B, N, d_model].
    finish : callable
        (concat, W_O) to the output.
    """

    matrices: Callable = lambda *W: W
    split: Callable = split_heads
    swap_roles: Callable = lambda Q, K, V: (Q, K, V)
    transpose: Callable = _swap
    compare: Callable = lambda Q, K_T: Q @ K_T
    scale: Callable = lambda d_h, d_model, N_k: d_h**-0.5
    causal: Callable = causal_mask
    padding: Callable = padding_mask
    weigh: Callable = _masked_softmax
    read: Callable = lambda A, V: A @ V
    merge: Callable = concat_heads
    finish: Callable = lambda concat, W_O: concat @ W_O

    def steps(
        self, X: Any, weights: MultiHeadWeights, *, context: Any = None, words: Any = None, causal: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield name and tensor, one after the other, as they are made; arguments as in `attend_right`."""
        read = X if context is None else context
        yield "X", X
        W_Q, W_K, W_V, W_O = self.matrices(weights.W_Q, weights.W_K, weights.W_V, weights.W_O)
        yield from (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V))
        Q, K, V = self.swap_roles(*(self.split(Z, weights.h) for Z in (X @ W_Q, read @ W_K, read @ W_V)))
        yield from (("Q", Q), ("K", K), ("V", V))
        K_T = self.transpose(K)
        yield "K_T", K_T
        S = self.compare(Q, K_T) * self.scale(Q.shape[-1], X.shape[-1], K.shape[-2])
        yield "S", S
        mask = np.ones((1, 1, 1, read.shape[1]), dtype=bool)
        for part in self.masks(X.shape[1], read.shape[1], words, causal):
            yield "mask", part
            mask = mask & part
        A = self.weigh(S, mask)
        yield "A", A
        H = self.read(A, V)
        yield "H", H
        concat = self.merge(H)
        yield "concat", concat
        yield "W_O", W_O
        yield "output", self.finish(concat, W_O)

    def masks(self, N_q: int, N_k: int, words: Any, causal: bool) -> Iterator[np.ndarray]:
        """Yield the masks that were asked for."""
        if words is not None:
            yield self.padding(np.asarray(words).astype(int), 0)[:, None]
        if causal:
            yield self.causal(N_q, N_k)

    def __call__(self, X: Any, weights: MultiHeadWeights, **options: Any) -> SimpleNamespace:
        """Return a trace: every tensor by its name, and ``shapes()``."""
        tensors = dict(self.steps(X, weights, **options))
        return SimpleNamespace(**tensors, shapes=lambda: {name: tuple(x.shape) for name, x in tensors.items()})

    def __repr__(self) -> str:
        replaced = [f.name for f in fields(self) if getattr(self, f.name) is not f.default]
        return f"Pipeline({', '.join(f'{name}=...' for name in replaced)})"


def _from_exercise(part: str, exercise: Exercise, name: str, called: str | None = None) -> Mistake:
    """Return a mistake that an exercise recognises, built into the pipeline: the same hint, the same function."""
    mistake = next(m for m in exercise.mistakes if m.name == name)
    return Mistake(called or name, mistake.hint, Pipeline(**{part: mistake.function}))


def _in_pipeline(name: str, hint: str, **parts: Callable) -> Mistake:
    return Mistake(name, hint, Pipeline(**parts))


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes that break a shape
# ---------------------------------------------------------------------------------------------------------------------


SHAPE_BREAKING = (
    _in_pipeline(
        "keys not transposed",
        "queries and keys both end in d_h. Which axis should be summed over?",
        transpose=lambda K: K,
    ),
    _in_pipeline(
        "components compared, not tokens",
        "S should have a row for each query and a column for each key. Yours has one for each component.",
        compare=lambda Q, K_T: _swap(Q) @ _swap(K_T),
    ),
    _in_pipeline(
        "d_h taken for d_model",
        "each head is as wide as a token. What is d_model divided by?",
        matrices=lambda W_Q, W_K, W_V, W_O: (*(np.concatenate([W] * 3, axis=1) for W in (W_Q, W_K, W_V)), W_O),
    ),
    _from_exercise("split", SPLIT, "as many components as heads", "h and d_h swapped"),
    _from_exercise("split", SPLIT, "no swap", "tokens before heads"),
    _from_exercise("split", SPLIT, "heads in front of the batch"),
    _in_pipeline(
        "last key lost",
        "K has one token less than V. Try a slice by pencil.",
        swap_roles=lambda Q, K, V: (Q, K[..., :-1, :], V),
    ),
    _from_exercise("padding", PADDING_MASK, "no axis for the queries", "padding mask [B, N]"),
    _in_pipeline(
        "mask of another length",
        "the mask was made for the longest sentence of all. How many tokens has this batch?",
        causal=lambda N_q, N_k: causal_mask(N_q + 3, N_k + 3),
    ),
    _in_pipeline(
        "heads not merged",
        "concat should have three axes. Where have the heads gone?",
        merge=lambda H: H,
    ),
    _in_pipeline(
        "heads added, not joined",
        "a sum of heads is as wide as one head. Concat means side by side.",
        merge=lambda H: H.sum(axis=1),
    ),
    _in_pipeline(
        "W_O of the size of a head",
        "W_O meets the heads joined. How wide are they?",
        matrices=lambda W_Q, W_K, W_V, W_O: (W_Q, W_K, W_V, W_O[: len(W_O) // 3]),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes that keep every shape
# ---------------------------------------------------------------------------------------------------------------------


def _mean_over_heads(A: Any) -> Any:
    """Return the mean over heads, once for each head."""
    return A.mean(1)[:, None] + 0 * A


SHAPE_PRESERVING = (
    # projections and heads
    _in_pipeline(
        "W_V reused for the keys",
        "what is compared and what is read are made by one matrix. Change W_K alone: does the output move?",
        matrices=lambda W_Q, W_K, W_V, W_O: (W_Q, W_V, W_V, W_O),
    ),
    _in_pipeline(
        "queries and keys swapped",
        "row i of the scores belongs to key i. Set W_Q and W_K to very different matrices.",
        swap_roles=lambda Q, K, V: (K, Q, V),
    ),
    _in_pipeline(
        "keys and values swapped",
        "the values are compared and the keys are read.",
        swap_roles=lambda Q, K, V: (Q, V, K),
    ),
    _from_exercise("split", SPLIT, "bare reshape", "split by a bare reshape"),
    _from_exercise("split", SPLIT, "components dealt out like cards", "components dealt like cards"),
    # scores
    _in_pipeline(
        "keys reshaped, not transposed",
        "a reshape keeps the order in memory, a transpose does not. Compare both on a matrix of whole numbers.",
        transpose=lambda K: K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2]),
    ),
    _in_pipeline("no scale", "the scores are bare dot products.", scale=lambda d_h, d_model, N_k: 1.0),
    _in_pipeline("scaled by d_model", "one head adds up d_h products.", scale=lambda d_h, d_model, N_k: d_model**-0.5),
    _in_pipeline("scaled twice", "the scale stands in S once.", scale=lambda d_h, d_model, N_k: 1 / d_h),
    _in_pipeline("scale inverted", "multiply or divide?", scale=lambda d_h, d_model, N_k: d_h**0.5),
    # masks
    _from_exercise("causal", CAUSAL_MASK, "one step into the future"),
    _from_exercise("causal", CAUSAL_MASK, "diagonal hidden"),
    _from_exercise("causal", CAUSAL_MASK, "rows and columns swapped", "causal mask transposed"),
    _from_exercise("causal", CAUSAL_MASK, "aligned at the start", "causal, aligned at the start"),
    _in_pipeline(
        "causal mask forgotten",
        "change the last token: does the first output move?",
        causal=lambda N_q, N_k: np.ones((N_q, N_k), dtype=bool),
    ),
    _from_exercise("padding", PADDING_MASK, "padding kept, words hidden", "padding mask inverted"),
    _from_exercise("padding", PADDING_MASK, "mask on the query axis", "padding on the query axis"),
    _from_exercise("padding", PADDING_MASK, "padding expected on the right"),
    _in_pipeline(
        "padding ignored",
        "append a token that is no word: do the others notice?",
        padding=lambda T, pad_id: np.ones((len(T), 1, T.shape[1]), dtype=bool),
    ),
    # softmax
    _from_exercise("weigh", MASKED_SOFTMAX, "masked after the softmax"),
    _from_exercise("weigh", MASKED_SOFTMAX, "scores multiplied by 0"),
    _from_exercise("weigh", MASKED_SOFTMAX, "−1e9 for minus infinity"),
    _from_exercise("weigh", MASKED_SOFTMAX, "softmax over the queries"),
    _in_pipeline(
        "softmax over the heads",
        "heads should know nothing of each other.",
        weigh=lambda S, mask: softmax(apply_mask(S, mask).swapaxes(1, -1)).swapaxes(1, -1),
    ),
    _in_pipeline(
        "softmax twice",
        "weights lie between 0 and 1, and as scores that makes them nearly equal. Many losses take a softmax of "
        "their own, too.",
        weigh=lambda S, mask: softmax(apply_mask(_masked_softmax(S, mask), mask)),
    ),
    # output
    _in_pipeline(
        "weights averaged over the heads",
        "every head reads with the same weights. Were they averaged for a picture?",
        read=lambda A, V: _mean_over_heads(A) @ V,
    ),
    _in_pipeline(
        "weights read by columns",
        "the values are mixed with the columns of A.",
        read=lambda A, V: _swap(A) @ V,
    ),
    _in_pipeline(
        "merged by a bare reshape",
        "the shape is right, but a row of concat holds pieces of several tokens.",
        merge=lambda H: H.reshape(H.shape[0], H.shape[2], -1),
    ),
    _in_pipeline(
        "W_O transposed",
        "a square matrix fits both ways. PyTorch stores it as [out, in].",
        finish=lambda concat, W_O: concat @ _swap(W_O),
    ),
    _in_pipeline("W_O forgotten", "what comes out is concat itself.", finish=lambda concat, W_O: concat),
)

MUSEUM = SHAPE_BREAKING + SHAPE_PRESERVING


# ---------------------------------------------------------------------------------------------------------------------
# Right implementations, which no test may take for wrong
# ---------------------------------------------------------------------------------------------------------------------


def attend_by_loops(
    X: Any, weights: MultiHeadWeights, *, context: Any = None, words: Any = None, causal: bool = False
) -> SimpleNamespace:
    """Attention written a second time, without attnlib: one sentence, one head, one query at a time."""
    read, h = X if context is None else context, weights.h
    (B, N_q, _), N_k, d_v = X.shape, read.shape[1], weights.W_V.shape[1] // h
    A, concat = np.zeros((B, h, N_q, N_k)), np.zeros((B, N_q, h * d_v))
    for b, a, i in np.ndindex(B, h, N_q):
        W_Q, W_K, W_V = (np.split(W, h, axis=1)[a] for W in (weights.W_Q, weights.W_K, weights.W_V))
        last = i + N_k - N_q if causal else N_k - 1
        keys = [j for j in range(last + 1) if words is None or words[b, j]]
        s = np.array([(X[b, i] @ W_Q) @ (read[b, j] @ W_K) for j in keys]) / W_Q.shape[1] ** 0.5
        exps = np.exp(s - s.max(initial=-np.inf))
        A[b, a, i, keys] = exps / exps.sum()
        for j in keys:
            concat[b, i, a * d_v : (a + 1) * d_v] += A[b, a, i, j] * (read[b, j] @ W_V)
    tensors = {"X": X, "A": A, "concat": concat, "output": concat @ weights.W_O}
    return SimpleNamespace(**tensors, shapes=lambda: {name: x.shape for name, x in tensors.items()})


RIGHT = {
    "attnlib's multi_head_attention": attend_right,
    "plain steps": Pipeline(),
    "loops over sentences, heads and queries": attend_by_loops,
    "queries scaled before they are compared": Pipeline(
        compare=lambda Q, K_T: (Q * Q.shape[-1] ** -0.5) @ K_T, scale=lambda d_h, d_model, N_k: 1.0
    ),
}

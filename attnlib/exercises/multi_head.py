"""The exercises of chapter 6: split into heads, what each head adds to the output, three suspects to be tested."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.exercises._language import _
from attnlib.masks import apply_mask, causal_mask
from attnlib.multi_head import MultiHeadWeights, concat_heads, multi_head_attention, split_heads
from attnlib.single_head import attention, scores, softmax

# ---------------------------------------------------------------------------------------------------------------------
# Split into heads
# ---------------------------------------------------------------------------------------------------------------------


def _split_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [
        (2, 7, 3, 5),  # B, N, h, d_h
        (3, 5, 2, 4),
        (2, 3, 5, 4),
        (4, 6, 3, 2),
        (2, 3, 3, 4),  # as many tokens as heads hide a forgotten swap
        (3, 5, 4, 4),  # as many heads as components hide a swapped shape
        (1, 4, 1, 3),
    ]
    return [(rng.normal(size=(B, N, h * d_h)), h) for B, N, h, d_h in sizes]


def _pieces(X: np.ndarray, h: int) -> np.ndarray:
    """Return each token vector in h consecutive pieces, [B, N, h, d_h]."""
    return X.reshape(*X.shape[:2], h, -1)


SPLIT = Exercise(
    arguments=("X", "h"),
    reference=split_heads,
    cases=_split_cases,
    own=(split_heads,),
    success="Each head has its piece of every token.",
    symptoms=(
        Symptom(
            "token 0 of head 0 is not the beginning of token 0.",
            lambda case, got: got.ndim == 4 and not np.array_equal(got[0, 0, 0], case[0][0, 0, : got.shape[-1]]),
        ),
        Symptom(
            "head 0 holds a piece of token 0 twice: its second row should come from token 1.",
            lambda case, got: (
                got.ndim == 4
                and case[1] > 1
                and case[0].shape[1] > 1
                and not np.array_equal(got[0, 0, 1], case[0][0, 1, : got.shape[-1]])
            ),
        ),
    ),
    mistakes=(
        Mistake(
            "bare reshape",
            "the shape is right, the content is not. A reshape never moves a number in memory. Print head 0 of "
            "np.arange(8).reshape(1, 2, 4) for two heads: which tokens does it hold?",
            lambda X, h: X.reshape(len(X), h, X.shape[1], -1),
        ),
        Mistake(
            "components dealt out like cards",
            "your head 0 takes every h-th component. A head takes d_h neighbors: which of the two numbers h and d_h "
            "comes last in the reshape?",
            lambda X, h: np.stack([X[..., a::h] for a in range(h)], axis=1),
        ),
        Mistake(
            "no swap",
            "the pieces are cut rightly, but your axes are [B, N, h, d_h]. Attention works on the last two axes: "
            "there heads would read heads.",
            _pieces,
        ),
        Mistake(
            "heads in front of the batch",
            "your result is [h, B, N, d_h]. The batch stays in front; np.stack and np.split have an argument for the "
            "axis, and np.array has none.",
            lambda X, h: np.moveaxis(_pieces(X, h), 2, 0),
        ),
        Mistake(
            "as many components as heads",
            "you made d_h heads of width h. Which of the two did the argument give you?",
            lambda X, h: np.swapaxes(X.reshape(*X.shape[:2], -1, h), 1, 2),
        ),
        Mistake(
            "the last two axes swapped",
            "your result is [B, N, d_h, h]: heads and components changed places. Which two axes should?",
            lambda X, h: np.swapaxes(_pieces(X, h), 2, 3),
        ),
        Mistake(
            "tokens behind components",
            "your result is [B, h, d_h, N], which is how keys stand in the product Q Kᵀ. The transpose comes there, "
            "not here.",
            lambda X, h: np.moveaxis(_pieces(X, h), 1, 3),
        ),
        Mistake(
            "transposed before the reshape",
            "you swapped tokens and components, and then a reshape cut wherever it came out. Cut first, while a "
            "token's components are neighbors in memory.",
            lambda X, h: np.swapaxes(X, 1, 2).reshape(len(X), h, X.shape[1], -1),
        ),
        Mistake(
            "pieces that overlap",
            "your pieces begin one component apart. Where does the piece of head 1 begin?",
            lambda X, h: np.stack([X[..., a : a + X.shape[-1] // h] for a in range(h)], axis=1),
        ),
        Mistake(
            "tokens shared out, not components",
            "each of your heads gets some of the tokens, whole. It should get some of the components, of every token.",
            lambda X, h: np.stack(np.split(X, h, axis=1), axis=1),
        ),
        Mistake(
            "whole vectors for every head",
            "each of your heads gets all components. Together the heads are as wide as X: how wide is one?",
            lambda X, h: np.repeat(X[:, None], h, axis=1),
        ),
        Mistake(
            "only the first sentence",
            "your result is [h, N, d_h]. The batch has more than one sentence.",
            lambda X, h: np.swapaxes(_pieces(X, h), 1, 2)[0],
        ),
    ),
)


def check_split(fn: Any) -> CheckResult:
    """Check ``fn(X, h)``: from token vectors [B, N, d_model] to the heads' pieces [B, h, N, d_h]."""
    return check(SPLIT, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The output projection as a sum over heads
# ---------------------------------------------------------------------------------------------------------------------


def _contribution_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [
        (2, 3, 5, 4, 12),  # B, h, N, d_h, d_model
        (3, 2, 4, 5, 10),
        (2, 4, 3, 2, 8),
        (3, 2, 5, 3, 10),  # a width of the output that is not h * d_h
        (2, 3, 3, 3, 9),  # equal sizes hide swapped axes
    ]
    return [(rng.normal(size=(B, h, N, d_h)), rng.normal(size=(h * d_h, d))) for B, h, N, d_h, d in sizes]


def _blocks(H: np.ndarray, W_O: np.ndarray) -> np.ndarray:
    """Return the rows of W_O that belong to each head, [h, d_h, d_model]."""
    return W_O.reshape(H.shape[1], H.shape[3], -1)


def _contributions(H: np.ndarray, W_O: np.ndarray) -> np.ndarray:
    return H @ _blocks(H, W_O)


def _one_head_each(H: np.ndarray) -> np.ndarray:
    """Return H h times; in copy a all heads but a are 0. Shape [B, h (copy), h, N, d_h]."""
    return np.eye(H.shape[1])[None, :, :, None, None] * H[:, None]


def _output(H: np.ndarray, W_O: np.ndarray) -> np.ndarray:
    return concat_heads(H) @ W_O


def _for_each_head(output: np.ndarray, h: int) -> np.ndarray:
    return np.repeat(output[:, None], h, axis=1)


CONTRIBUTIONS = Exercise(
    arguments=("H", "W_O"),
    reference=_contributions,
    cases=_contribution_cases,
    success="Added up over the heads they give concat W_O, and each is the output of its head alone.",
    symptoms=(
        Symptom(
            "your contributions add up to concat W_O, but they are not those of the heads.",
            lambda case, got: got.ndim == 4 and np.allclose(got.sum(axis=1), _output(*case)),
        ),
        Symptom(
            "your contributions do not add up to concat W_O.",
            lambda case, got: got.ndim == 4,
        ),
    ),
    mistakes=(
        Mistake(
            "columns of W_O instead of rows",
            "concat meets the rows of W_O, and a head is a part of concat. You took the head's columns.",
            lambda H, W_O: H @ np.stack([W_O.T[a * H.shape[3] :][: H.shape[3]] for a in range(H.shape[1])]),
        ),
        Mistake(
            "rows dealt out like cards",
            "your head a meets every h-th row of W_O. In concat the components of one head are neighbors.",
            lambda H, W_O: H @ np.stack([W_O[a :: H.shape[1]] for a in range(H.shape[1])]),
        ),
        Mistake(
            "the first rows for every head",
            "each of your heads meets the same rows of W_O, those of head 0.",
            lambda H, W_O: H @ W_O[: H.shape[3]],
        ),
        Mistake(
            "rows that overlap",
            "your blocks of rows begin one row apart. Where does the block of head 1 begin?",
            lambda H, W_O: H @ np.stack([W_O[a : a + H.shape[3]] for a in range(H.shape[1])]),
        ),
        Mistake(
            "d_h made from d_model",
            "right while d_model is h * d_h. The width of a head can be read from H.",
            lambda H, W_O: H @ W_O.reshape(H.shape[1], W_O.shape[1] // H.shape[1], -1),
        ),
        Mistake(
            "W_O reshaped to the wrong shape",
            "you cut W_O by a bare reshape to [h, d_model, d_h]. Its rows belong to heads: which axis has to be cut?",
            lambda H, W_O: H @ np.swapaxes(W_O.reshape(H.shape[1], -1, H.shape[3]), 1, 2),
        ),
        Mistake(
            "already added up",
            "your result is the sum, concat W_O. Keep the contributions apart, one for each head.",
            _output,
        ),
        Mistake(
            "the mean over the heads",
            "your result is one matrix a sentence, the mean of the contributions. The output is their sum, and here "
            "they are wanted apart.",
            lambda H, W_O: _output(H, W_O) / H.shape[1],
        ),
        Mistake(
            "contributions divided by h",
            "yours add up to 1/h of the output. Nothing in concat W_O takes a mean.",
            lambda H, W_O: _contributions(H, W_O) / H.shape[1],
        ),
        Mistake(
            "equal shares of the output",
            "yours add up to the right output, but every head gets the same share of it. Set all heads but one to 0: "
            "what is left of concat W_O?",
            lambda H, W_O: _for_each_head(_output(H, W_O), H.shape[1]) / H.shape[1],
        ),
        Mistake(
            "the output for every head",
            "each of your heads has the whole output. What does head 0 alone bring?",
            lambda H, W_O: _for_each_head(_output(H, W_O), H.shape[1]),
        ),
        Mistake(
            "what is left without the head",
            "yours is the output of all the other heads. That is the output minus what was asked for.",
            lambda H, W_O: _for_each_head(_output(H, W_O), H.shape[1]) - _contributions(H, W_O),
        ),
        Mistake(
            "heads merged by a bare reshape",
            "you set the other heads to 0 and merged by a reshape alone. That mixes tokens; which axes have to change "
            "places before?",
            lambda H, W_O: _one_head_each(H).reshape(*H.shape[:2], H.shape[2], -1) @ W_O,
        ),
        Mistake(
            "not projected",
            "yours is each head's part of concat. It has not met W_O yet.",
            lambda H, W_O: concat_heads(_one_head_each(H)),
        ),
        Mistake(
            "heads behind tokens",
            "right, but your axes are [B, N, h, d_model]; [B, h, N, d_model] was asked for.",
            lambda H, W_O: np.swapaxes(_contributions(H, W_O), 1, 2),
        ),
        Mistake(
            "heads in front of the batch",
            "right, but your axes are [h, B, N, d_model]; [B, h, N, d_model] was asked for. A list of arrays becomes "
            "an array along axis 0, and np.stack has an argument for that.",
            lambda H, W_O: np.swapaxes(_contributions(H, W_O), 0, 1),
        ),
    ),
)


def check_contributions(fn: Any) -> CheckResult:
    """Check ``fn(H, W_O)``: what each head adds to the output, [B, h, N, d_model], from H [B, h, N, d_h]."""
    return check(CONTRIBUTIONS, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Three suspects
# ---------------------------------------------------------------------------------------------------------------------

_WEIGHTS = MultiHeadWeights.random(12, 3, seed=1)  # those of the running example


@dataclass(frozen=True)
class Implementation:
    """A multi-head attention of 3 heads and d_model = 12, with weights of its own: right or wrong.

    Called as ``attend(X)`` or ``attend(X, mask)``, with X [B, N, 12] and a boolean mask [N, N]; returns [B, N, 12].
    """

    name: str
    function: Callable

    def __call__(self, X: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self.function(X, mask)

    def __repr__(self) -> str:
        return _(self.name)


def suspect_A(X, mask):
    """Multi-head attention with one bug."""
    h, (B, N, d_model) = _WEIGHTS.h, X.shape
    Q = (X @ _WEIGHTS.W_Q).reshape(B, h, N, d_model // h)
    K = (X @ _WEIGHTS.W_K).reshape(B, h, N, d_model // h)
    V = (X @ _WEIGHTS.W_V).reshape(B, h, N, d_model // h)
    H = attention(Q, K, V, mask=mask).H
    return H.reshape(B, N, d_model) @ _WEIGHTS.W_O


def suspect_B(X, mask):
    """Multi-head attention with one bug."""
    Q, K, V = (split_heads(X @ W, _WEIGHTS.h) for W in (_WEIGHTS.W_Q, _WEIGHTS.W_K, _WEIGHTS.W_V))
    S = scores(Q, K)
    if mask is not None:
        S = np.where(mask, S, -np.inf)
    exps = np.exp(S - S.max())
    A = exps / exps.sum(axis=2, keepdims=True)
    return concat_heads(A @ V) @ _WEIGHTS.W_O


def suspect_C(X, mask):
    """Multi-head attention with one bug."""
    h, (B, N, d_model) = _WEIGHTS.h, X.shape
    Q = np.concatenate(np.split(X @ _WEIGHTS.W_Q, h, axis=-1))  # heads and sentences on one axis
    K = np.concatenate(np.split(X @ _WEIGHTS.W_K, h, axis=-1))
    V = np.concatenate(np.split(X @ _WEIGHTS.W_V, h, axis=-1))
    H = attention(Q, K, V, mask=mask).H.reshape(B, h, N, d_model // h)
    return concat_heads(H) @ _WEIGHTS.W_O


SUSPECTS = {
    name: Implementation(f"suspect {name}", function)
    for name, function in {"A": suspect_A, "B": suspect_B, "C": suspect_C}.items()
}


def _right(X, mask):
    return multi_head_attention(X, _WEIGHTS, mask=mask).output


def _right_by_loop(X, mask):
    output = 0
    for a in range(_WEIGHTS.h):
        own = slice(4 * a, 4 * a + 4)
        Q, K, V = X @ _WEIGHTS.W_Q[:, own], X @ _WEIGHTS.W_K[:, own], X @ _WEIGHTS.W_V[:, own]
        S = scores(Q, K) if mask is None else apply_mask(scores(Q, K), mask)
        output = output + softmax(S) @ V @ _WEIGHTS.W_O[own]
    return output


def _another_scale(X, mask):
    return multi_head_attention(X, _WEIGHTS, mask=mask, scale=12**-0.5).output


def _bare_merge(X, mask):
    H = multi_head_attention(X, _WEIGHTS, mask=mask).H
    return H.reshape(X.shape) @ _WEIGHTS.W_O


def _property_cases(rng: np.random.Generator) -> list[tuple]:
    more = {
        "a right implementation": _right,
        "a right one by a loop over heads": _right_by_loop,
        "one that scales by d_model": _another_scale,
        "one with a bare reshape in its merge": _bare_merge,
    }
    return [(attend,) for attend in (*(Implementation(*named) for named in more.items()), *SUSPECTS.values())]


def _sentences(N: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, N, 12))


def _is_equivariant(attend: Callable, order: tuple[int, ...] = (3, 0, 4, 1, 2)) -> bool:
    X = _sentences(len(order))
    return np.allclose(attend(X[:, list(order)]), attend(X)[:, list(order)])


def _is_causal(attend: Callable, *, masked: bool = True, outputs: slice = slice(4)) -> bool:
    X, moved, mask = _sentences(), _sentences(), causal_mask(5) if masked else None
    moved[:, 4] += np.random.default_rng(1).normal(size=12)
    return np.allclose(attend(moved, mask)[:, outputs], attend(X, mask)[:, outputs])


def _is_causal_for_a_prefix(attend: Callable) -> bool:
    X = _sentences()
    return np.allclose(attend(X[:, :4], causal_mask(4)), attend(X, causal_mask(5))[:, :4])


def _is_separate(attend: Callable) -> bool:
    X, other = _sentences(), _sentences()
    other[1] += np.random.default_rng(1).normal(size=(5, 12))
    return np.allclose(attend(other)[0], attend(X)[0])


def _verdicts(attend: Callable) -> tuple[bool, bool, bool]:
    return _is_equivariant(attend), _is_causal(attend), _is_separate(attend)


def _sentences_shuffled(attend: Callable) -> bool:
    X = _sentences()
    return np.allclose(attend(X[::-1]), attend(X)[::-1])


def _says(place: int, found: bool, sentence: str) -> Symptom:
    """Return a symptom: the verdict at this place is `found`, and wrong."""
    return Symptom(
        sentence, lambda case, got: got.shape == (3,) and bool(got[place]) is found and _verdicts(*case)[place] != found
    )


PROPERTIES = Exercise(
    arguments=("attend",),
    reference=_verdicts,
    cases=_property_cases,
    success="Right ones pass, and each suspect is caught by another property: go and find the three lines.",
    symptoms=(
        _says(
            0, False, "you find that shuffled tokens do not give shuffled outputs, but here they do, up to rounding."
        ),
        _says(1, False, "you find that a future token changes the past, but here it does not, up to rounding."),
        _says(2, False, "you find that sentences mix, but here they do not, up to rounding."),
        _says(0, True, "shuffled tokens do not give shuffled outputs, and your first verdict does not see it."),
        _says(1, True, "a future token changes the past under a causal mask, and your second verdict does not see it."),
        _says(2, True, "sentences of a batch mix, and your third verdict does not see it."),
    ),
    mistakes=(
        Mistake(
            "outputs not in the same order",
            "your first verdict is False for everything. Shuffled tokens give the same outputs in the new order: "
            "shuffle both sides along axis 1 by the same order, use no mask, and compare by np.allclose.",
            lambda attend: (False, _is_causal(attend), _is_separate(attend)),
        ),
        Mistake(
            "sentences shuffled, not tokens",
            "you changed the order of axis 0. Which axis of X are the tokens?",
            lambda attend: (_sentences_shuffled(attend), _is_causal(attend), _is_separate(attend)),
        ),
        Mistake(
            "nothing shuffled",
            "your first verdict is True for everything. Is your order another one than 0, 1, 2, …? (A random order of "
            "two or three tokens is often just that.)",
            lambda attend: (True, _is_causal(attend), _is_separate(attend)),
        ),
        Mistake(
            "too regular a shuffle",
            "one of the bugs mixes tokens in groups of neighbors, one group a head. Where 3 heads divide the tokens "
            "evenly, an order that keeps the groups together (such as the reverse) does not show it. Take a random "
            "order of 5 or 7 tokens.",
            lambda attend: (_is_equivariant(attend, (5, 4, 3, 2, 1, 0)), _is_causal(attend), _is_separate(attend)),
        ),
        Mistake(
            "no past is kept",
            "your second verdict is False for everything. Did the causal mask reach attend, with True for what may be "
            "read? And did you leave out the outputs of the token that you changed and of those after it?",
            lambda attend: (_is_equivariant(attend), False, _is_separate(attend)),
        ),
        Mistake(
            "the same array changed",
            "your second verdict is True for everything. After `Y = X` both names mean one array, and a change of Y "
            "changes X. Did anything differ between your two calls?",
            lambda attend: (_is_equivariant(attend), True, _is_separate(attend)),
        ),
        Mistake(
            "only the first output compared",
            "one of the implementations lets the last token reach some earlier outputs, but not the first. Compare "
            "all that are past.",
            lambda attend: (_is_equivariant(attend), _is_causal(attend, outputs=slice(1)), _is_separate(attend)),
        ),
        Mistake(
            "token left out, not changed",
            "you left the last token out. That asks more: a sentence of another length is cut at other places by one "
            "of the bugs, though no future token gets through. Keep the length, and change the token.",
            lambda attend: (_is_equivariant(attend), _is_causal_for_a_prefix(attend), _is_separate(attend)),
        ),
        Mistake(
            "a batch of one",
            "your third verdict is True for everything. In a batch of one sentence, or of copies of one, there is "
            "nothing to mix with.",
            lambda attend: (_is_equivariant(attend), _is_causal(attend), True),
        ),
        Mistake(
            "the wrong sentences compared",
            "your third verdict is False for everything. Keep a sentence, change the others, and compare the outputs "
            "of the kept one, and of it alone, before and after.",
            lambda attend: (_is_equivariant(attend), _is_causal(attend), False),
        ),
        Mistake(
            "only shapes compared",
            "everything passes with you. The shapes of all these implementations are right, and so tell nothing.",
            lambda attend: (attend(_sentences()).shape == (2, 5, 12),) * 3,
        ),
        Mistake(
            "one verdict for all three",
            "your result is a single verdict. Which property fails is what points to the bug: return all three.",
            lambda attend: all(_verdicts(attend)),
        ),
        Mistake(
            "True for what is broken",
            "your three verdicts are the wrong way round: True means that the property holds.",
            lambda attend: tuple(not holds for holds in _verdicts(attend)),
        ),
        Mistake(
            "verdicts in another order",
            "your verdicts are right and stand in another order: shuffle, future, batch.",
            lambda attend: (_is_causal(attend), _is_equivariant(attend), _is_separate(attend)),
        ),
    ),
)


def check_properties(fn: Any) -> CheckResult:
    """Check ``fn(attend)``: three verdicts on an implementation: (equivariant, causal, separate)."""
    return check(PROPERTIES, fn)

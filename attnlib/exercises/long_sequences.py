"""The exercises of chapter 12: a stream of blocks, a window, two partial results, a cache, and a running state."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnlib._arrays import shape_of
from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, Unreadable, check
from attnlib.exercises._language import _
from attnlib.masks import apply_mask, causal_mask
from attnlib.single_head import attention, softmax

# ---------------------------------------------------------------------------------------------------------------------
# A stream of blocks
# ---------------------------------------------------------------------------------------------------------------------


class Blocks:
    """Scores and values of the same queries, a block of keys at a time: ``for S, V in blocks``."""

    def __init__(self, S: np.ndarray, V: np.ndarray, sizes: tuple[int, ...]):
        ends = np.cumsum(sizes)[:-1]
        self.sizes = sizes
        self.pairs = list(zip(np.split(S, ends, axis=-1), np.split(V, ends, axis=0), strict=True))

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and all(map(np.array_equal, sum(self.pairs, ()), sum(other.pairs, ())))

    __hash__ = None

    def __repr__(self) -> str:
        S, V = self.pairs[0]
        sizes = " + ".join(map(str, self.sizes))
        what = _("{queries} queries, {keys} keys, d_v {d_v}")
        return what.format(queries=len(S), keys=sizes, d_v=V.shape[1])


def _online_cases(rng: np.random.Generator) -> list[tuple]:
    S, V = rng.normal(size=(3, 10)) * 2, rng.normal(size=(10, 2))
    cases = [Blocks(S, V, sizes) for sizes in ((10,), (4, 4, 2), (1,) * 10, (3, 7))]

    masked = rng.normal(size=(4, 9))
    masked[0, :3] = masked[1, 3:6] = masked[2, 6:] = masked[3] = -np.inf  # a block each, and a query without any key
    cases += [Blocks(masked, rng.normal(size=(9, 3)), sizes) for sizes in ((3, 3, 3), (2, 7))]

    falling = np.sort(rng.normal(size=(2, 8)))[:, ::-1] + 400 * np.array([3, 3, 2, 2, 1, 1, 0, 0])
    apart = rng.normal(size=(3, 6)) + np.array([[0.0], [1000.0], [-1000.0]])
    cases += [Blocks(falling, rng.normal(size=(8, 5)), (2, 2, 4)), Blocks(apart, rng.normal(size=(6, 2)), (2, 4))]
    return [(blocks,) for blocks in (*cases, _low(rng))]


def _low(rng: np.random.Generator) -> Blocks:
    """Return blocks whose scores all lie so low that their exponentials are 0."""
    return Blocks(rng.normal(size=(2, 7)) - 900, rng.normal(size=(7, 4)), (5, 2))


def _whole(blocks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores and values of all blocks."""
    scores, values = zip(*blocks, strict=True)
    return np.concatenate(scores, axis=-1), np.concatenate(values)


def _attend_whole(blocks: Any) -> np.ndarray:
    S, V = _whole(blocks)
    return softmax(S) @ V


LOWEST = np.finfo(float).min


def _stream(
    *,
    start: float = LOWEST,
    top: Callable = np.maximum,
    factor: Callable = lambda old, new: np.exp(old - new),
    rescale_sum: bool = True,
    rescale_output: bool = True,
    divide: bool = True,
    guard: bool = True,
) -> Callable[[Any], np.ndarray]:
    """Return online softmax as students write it, right or with one of its parts gone wrong."""

    def attend(blocks: Any) -> np.ndarray:
        m = total = output = None
        for S, V in blocks:
            if m is None:
                m, total, output = np.full((len(S), 1), start), 0.0, 0.0
            new = top(m, S.max(axis=-1, keepdims=True))
            exps, c = np.exp(S - new), factor(m, new)
            total = total * (c if rescale_sum else 1) + exps.sum(axis=-1, keepdims=True)
            output = output * (c if rescale_output else 1) + exps @ V
            m = new
        return output / np.where(guard & (total == 0), 1, total) if divide else output

    return attend


def _plain_softmax(S: np.ndarray) -> np.ndarray:
    exps = np.exp(S - S.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def _divided_after_each(blocks: Any) -> np.ndarray:
    m, total, output = LOWEST, 0.0, 0.0
    for S, V in blocks:
        new = np.maximum(m, S.max(axis=-1, keepdims=True))
        exps, c = np.exp(S - new), np.exp(m - new)
        total = total * c + exps.sum(axis=-1, keepdims=True)
        output, m = (output * c + exps @ V) / np.where(total == 0, 1, total), new
    return output


def _without_maximum(blocks: Any) -> np.ndarray:
    S, V = _whole(blocks)
    exps = np.exp(S)
    total = exps.sum(axis=-1, keepdims=True)
    return exps @ V / np.where(total == 0, 1, total)


def _finite_for_hidden(blocks: Any) -> np.ndarray:
    S, V = _whole(blocks)
    return _plain_softmax(np.maximum(S, LOWEST)) @ V


ONLINE_ATTENTION = Exercise(
    arguments=("blocks",),
    reference=_attend_whole,
    cases=_online_cases,
    success="However the keys are cut into blocks, the output is the same.",
    symptoms=(
        Symptom(
            "a query that may read nothing has an output other than 0.",
            lambda case, H: (H[np.isneginf(_whole(case[0])[0]).all(axis=-1)] != 0).any(),
        ),
        Symptom(
            "an output is larger than every value that it could be a mean of.",
            lambda case, H: np.abs(H).max() > np.abs(_whole(case[0])[1]).max() * (1 + 1e-9),
        ),
    ),
    mistakes=(
        Mistake(
            "old results not rescaled",
            "right as long as the first block holds the largest score. When the maximum moves, what do the old "
            "exponentials refer to, and what the new ones?",
            _stream(rescale_sum=False, rescale_output=False),
        ),
        Mistake(
            "the old sum not rescaled",
            "the weighted values follow the new maximum, and the sum of the exponentials does not.",
            _stream(rescale_sum=False),
        ),
        Mistake(
            "the old output not rescaled",
            "the sum of the exponentials follows the new maximum, and the weighted values do not.",
            _stream(rescale_output=False),
        ),
        Mistake(
            "the factor upside down",
            "when the maximum rises, old exponentials have to shrink. Try m = 1 and then 3: is your factor below 1?",
            _stream(factor=lambda old, new: np.exp(np.where(old == LOWEST, 0, new - old))),
        ),
        Mistake(
            "the maximum of the block, not of all so far",
            "in exact numbers that is right. But when scores fall by hundreds from block to block, your factor is "
            "e to the power of hundreds. Which of two maxima is safe?",
            _stream(top=lambda old, new: new),
        ),
        Mistake(
            "the maximum starts at 0",
            "where all scores are near −900, every exponential is 0, and nothing is left to divide. Where should a "
            "running maximum start?",
            _stream(start=0.0),
        ),
        Mistake(
            "minus infinity minus minus infinity",
            "a first block with nothing to read leaves the maximum at minus infinity, and the difference of two "
            "infinities is no number. No later block can mend it.",
            _stream(start=-np.inf),
        ),
        Mistake(
            "NaN turned into 0",
            "the NaN of a hidden first block is gone, and with it all that the query reads later. Where did it begin?",
            lambda blocks: np.nan_to_num(_stream(start=-np.inf)(blocks)),
        ),
        Mistake(
            "0/0 for a query that reads nothing",
            "right for all others. The sum of a query whose keys are all hidden is 0: what should come out?",
            _stream(guard=False),
        ),
        Mistake(
            "one maximum for all queries",
            "a query whose scores lie far below those of another one has nothing left: all its exponentials are 0. "
            "Along which axis does a maximum belong to a query?",
            _stream(top=lambda old, new: np.maximum(old, new.max())),
        ),
        Mistake(
            "divided after each block",
            "what is divided once already is added to what is not. When are all keys known?",
            _divided_after_each,
        ),
        Mistake(
            "not divided at the end",
            "these are the weighted sums of values. Their weights do not sum to 1 yet.",
            _stream(divide=False),
        ),
        Mistake(
            "the mean of the blocks' means",
            "each block counts the same, whether its scores are high or low. What is a block's share of the whole sum?",
            lambda blocks: np.mean([softmax(S) @ V for S, V in blocks], axis=0),
        ),
        Mistake(
            "the sum of the blocks' means",
            "the weights of each block sum to 1, so together they sum to the number of blocks.",
            lambda blocks: sum(softmax(S) @ V for S, V in blocks),
        ),
        Mistake(
            "the last block alone",
            "nothing of the earlier blocks is left. Which three things have to survive from block to block?",
            lambda blocks: [softmax(S) @ V for S, V in blocks][-1],
        ),
        Mistake(
            "no maximum subtracted",
            "right for small scores. e^1200 is infinite, and e^-900 is 0.",
            _without_maximum,
        ),
        Mistake(
            "a finite number for minus infinity",
            "a query that may read nothing then has equal scores, and gets the mean of all values.",
            _finite_for_hidden,
        ),
    ),
)


def check_online_attention(fn: Any) -> CheckResult:
    """Check ``fn(blocks)``: blocks gives (S, V) a block of keys at a time; H of all keys, [N_q, d_v]."""
    return check(ONLINE_ATTENTION, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The edge of a window
# ---------------------------------------------------------------------------------------------------------------------


def _window_cases(rng: np.random.Generator) -> list[tuple]:
    return [(8, 8, 3), (6, 6, 1), (3, 9, 4), (1, 7, 2), (5, 11, 2), (4, 6, 20), (7, 7, int(rng.integers(4, 6)))]


def _window(N_q: int, N_k: int, window: int, *, from_end: bool = True, back: int = 0, ahead: int = 0) -> np.ndarray:
    """Return True for a distance from query to key between -ahead and window - 1 + back."""
    i = np.arange(N_q)[:, None] + (N_k - N_q) * from_end
    distance = i - np.arange(N_k)[None, :]
    return (distance >= -ahead) & (distance < window + back)


def _blockwise(N_q: int, N_k: int, window: int) -> np.ndarray:
    i, j = np.arange(N_q)[:, None] + N_k - N_q, np.arange(N_k)[None, :]
    return (j <= i) & (i // window == j // window)


WINDOW_MASK = Exercise(
    arguments=("N_q", "N_k", "window"),
    reference=_window,
    cases=_window_cases,
    success="Every query reads itself and the tokens just before it, also when queries are fewer than keys.",
    symptoms=(
        Symptom(
            "the last query may not read its own key, which is the last one.",
            lambda case, got: got.dtype == bool and not got[-1, -1],
        ),
        Symptom(
            "a query may read a key that comes after it.",
            lambda case, got: got.dtype == bool and (got & ~causal_mask(*case[:2])).any(),
        ),
        Symptom(
            "a query may read more keys than the window has.",
            lambda case, got: got.dtype == bool and got.sum(axis=-1).max() > case[2],
        ),
    ),
    mistakes=(
        Mistake(
            "one key too many",
            "the window counts the query itself. With window 1 a query reads only its own token: how many does "
            "yours read?",
            lambda N_q, N_k, window: _window(N_q, N_k, window, back=1),
        ),
        Mistake(
            "one key too few",
            "with window 1 a query should still read its own token. Count the keys of a row in the middle.",
            lambda N_q, N_k, window: _window(N_q, N_k, window, back=-1),
        ),
        Mistake(
            "the future is open",
            "your window ends on the left and not on the right. Which keys come after query 0?",
            lambda N_q, N_k, window: _window(N_q, N_k, window, ahead=N_k),
        ),
        Mistake(
            "the window looks both ways",
            "an encoder may do that. Here no query reads what comes after it.",
            lambda N_q, N_k, window: _window(N_q, N_k, window, ahead=window - 1),
        ),
        Mistake(
            "the window looks both ways, aligned at the start",
            "no query reads what comes after it. And with 1 query and 7 keys, that query is the last token.",
            lambda N_q, N_k, window: _window(N_q, N_k, window, ahead=window - 1, from_end=False),
        ),
        Mistake(
            "or in place of and",
            "a key may be read if it is not in the future, and also not too far back. Yours needs only one of the two.",
            lambda N_q, N_k, window: causal_mask(N_q, N_k) | _window(N_q, N_k, window, ahead=N_k),
        ),
        Mistake(
            "a window around the query, and one key too many",
            "your window reaches equally far to both sides. Write down which keys query 5 may read with window 3.",
            lambda N_q, N_k, window: _window(N_q, N_k, window, back=1, ahead=window),
        ),
        Mistake(
            "the query itself is hidden",
            "your windows end one token before the query. Does the window count the query itself?",
            lambda N_q, N_k, window: _window(N_q, N_k, window, back=1, ahead=-1),
        ),
        Mistake(
            "no window",
            "this is a causal mask: a late query reads everything before it, however far.",
            lambda N_q, N_k, window: _window(N_q, N_k, N_k + 1),
        ),
        Mistake(
            "aligned at the start",
            "right if there are as many queries as keys. With 1 query and 7 keys, that query is the last token: as "
            "which one do you treat it?",
            lambda N_q, N_k, window: _window(N_q, N_k, window, from_end=False),
        ),
        Mistake(
            "aligned at the start, and one key too many",
            "the window counts the query itself; and with 1 query and 7 keys, that query is the last token.",
            lambda N_q, N_k, window: _window(N_q, N_k, window, from_end=False, back=1),
        ),
        Mistake(
            "the near past hidden",
            "you keep what lies before the window, and hide what lies in it.",
            lambda N_q, N_k, window: causal_mask(N_q, N_k) & ~_window(N_q, N_k, window),
        ),
        Mistake(
            "inverted",
            "True marks what may be read, and yours marks what may not.",
            lambda N_q, N_k, window: ~_window(N_q, N_k, window),
        ),
        Mistake(
            "fixed blocks instead of a sliding window",
            "the first token of each of your blocks reads only itself. A sliding window goes along with every query.",
            _blockwise,
        ),
        Mistake(
            "0 and 1 instead of booleans",
            "a mask of numbers could also be added to the scores, and then it hides nothing. What dtype says only "
            "yes or no?",
            lambda N_q, N_k, window: _window(N_q, N_k, window).astype(float),
        ),
    ),
)


def check_window_mask(fn: Any) -> CheckResult:
    """Check ``fn(N_q, N_k, window)``: True where a query may read a key: its own and the window - 1 before it."""
    return check(WINDOW_MASK, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Two partial results become one
# ---------------------------------------------------------------------------------------------------------------------

State = tuple[np.ndarray, np.ndarray, np.ndarray]


def _partial(S: np.ndarray, V: np.ndarray) -> State:
    """Return maximum, sum and unnormalised output of the keys that are given; -inf, 0 and 0 where none may be read."""
    m = S.max(axis=-1)
    exps = np.exp(S - np.where(np.isneginf(m), 0.0, m)[:, None])
    return m, exps.sum(axis=-1), exps @ V


def _merge_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for N_q, halves, d_v, shift in ((3, (4, 5), 2, 0), (4, (6, 2), 3, 3), (2, (3, 7), 5, 1000), (5, (2, 4), 4, -1000)):
        S, V = rng.normal(size=(N_q, sum(halves))) * 2, rng.normal(size=(sum(halves), d_v))
        S[:, halves[0] :] += shift
        if shift == 3:
            S[0, : halves[0]] = S[1, halves[0] :] = S[2] = -np.inf  # nothing on the left, on the right, anywhere
        cases.append((*_partial(S[:, : halves[0]], V[: halves[0]]), *_partial(S[:, halves[0] :], V[halves[0] :])))
    return cases


def _merge(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
    """Return the result of both halves together."""
    m = np.maximum(m_1, m_2)
    base = np.where(np.isneginf(m), 0.0, m)
    c_1, c_2 = np.exp(m_1 - base), np.exp(m_2 - base)
    return m, c_1 * l_1 + c_2 * l_2, c_1[:, None] * U_1 + c_2[:, None] * U_2


def _merged_view(case: tuple, result: Any) -> np.ndarray:
    """Return, for each query, the logarithm of its sum of exponentials and its output: what (m, l, U) stand for."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Unreadable(_("something else than three arrays ({names}).").format(names="m, l, U"))
    m, total, U = (np.asarray(part.detach() if hasattr(part, "detach") else part, float) for part in result)
    N_q, d_v = case[2].shape
    if m.shape != (N_q,) or total.shape != (N_q,) or U.shape != (N_q, d_v):
        shapes = _(", ").join(f"{n} {shape_of(x)}" for n, x in zip(("m", "l", "U"), (m, total, U), strict=True))
        what = _("{shapes}, but m and l should be {one} and U {other}.")
        raise Unreadable(what.format(shapes=shapes, one=[N_q], other=[N_q, d_v]))
    empty = (total == 0) & (U == 0).all(axis=-1)
    with np.errstate(all="ignore"):
        size = np.where(empty, 0.0, m + np.log(total))
        return np.column_stack([~empty, size, np.where(empty[:, None], 0.0, U / total[:, None])])


def _merge_by(c_1: Callable, c_2: Callable, *, output_too: bool = True, sum_too: bool = True) -> Callable:
    """Return a merge with factors of the student's making, from (m_1, m_2, m)."""

    def merge(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
        m = np.maximum(m_1, m_2)
        base = np.where(np.isneginf(m), 0.0, m)
        a, b = c_1(m_1, m_2, base), c_2(m_1, m_2, base)
        one = np.ones_like(base)
        total = (a if sum_too else one) * l_1 + (b if sum_too else one) * l_2
        return m, total, (a if output_too else one)[:, None] * U_1 + (b if output_too else one)[:, None] * U_2

    return merge


def _ones(m_1: Any, m_2: Any, m: Any) -> np.ndarray:
    return np.ones_like(m)


def _factor_1(m_1: Any, m_2: Any, m: Any) -> np.ndarray:
    return np.exp(m_1 - m)


def _factor_2(m_1: Any, m_2: Any, m: Any) -> np.ndarray:
    return np.exp(m_2 - m)


def _merge_careless(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
    m = np.maximum(m_1, m_2)
    c_1, c_2 = np.exp(m_1 - m), np.exp(m_2 - m)
    return m, c_1 * l_1 + c_2 * l_2, c_1[:, None] * U_1 + c_2[:, None] * U_2


def _merge_onto_first(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
    c = np.exp(m_2 - np.where(np.isneginf(m_1), 0.0, m_1))
    return m_1, l_1 + c * l_2, U_1 + c[:, None] * U_2


def _merge_without_maximum(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
    c_1, c_2 = np.exp(m_1), np.exp(m_2)
    return np.zeros_like(m_1), c_1 * l_1 + c_2 * l_2, c_1[:, None] * U_1 + c_2[:, None] * U_2


def _merge_divided(*case: Any) -> State:
    m, total, U = _merge(*case)
    return m, total, U / np.where(total == 0, 1.0, total)[:, None]


def _merge_means(m_1: Any, l_1: Any, U_1: Any, m_2: Any, l_2: Any, U_2: Any) -> State:
    H_1, H_2 = (U / np.where(total == 0, 1.0, total)[:, None] for total, U in ((l_1, U_1), (l_2, U_2)))
    m, total = _merge(m_1, l_1, U_1, m_2, l_2, U_2)[:2]
    return m, total, (H_1 + H_2) / 2 * total[:, None]


MERGE = Exercise(
    arguments=("m_1", "l_1", "U_1", "m_2", "l_2", "U_2"),
    reference=_merge,
    cases=_merge_cases,
    view=_merged_view,
    success="Blocks may be read apart, in any order, and be put together afterwards.",
    symptoms=(
        Symptom(
            "a query that may read nothing in either half has something all the same.",
            lambda case, got: got[np.isneginf(np.maximum(case[0], case[3])), 0].any(),
        ),
        Symptom(
            "a query that could read in one of the halves has nothing left.",
            lambda case, got: not got[~np.isneginf(np.maximum(case[0], case[3])), 0].all(),
        ),
        Symptom(
            "sum and maximum are right, the output U / l is not.",
            lambda case, got: np.allclose(got[:, 1], _merged_view(case, _merge(*case))[:, 1]),
        ),
        Symptom(
            "the output U / l is right, sum and maximum do not fit together.",
            lambda case, got: np.allclose(got[:, 2:], _merged_view(case, _merge(*case))[:, 2:]),
        ),
    ),
    mistakes=(
        Mistake(
            "added as they are",
            "the two halves were made with different maxima. To what does an exponential of the first half refer?",
            _merge_by(_ones, _ones),
        ),
        Mistake(
            "only the first half rescaled",
            "right where the second maximum is the larger one. And where it is not?",
            _merge_by(_factor_1, _ones),
        ),
        Mistake(
            "only the second half rescaled",
            "right where the first maximum is the larger one. And where it is not?",
            _merge_by(_ones, _factor_2),
        ),
        Mistake(
            "the sums not rescaled",
            "U follows the new maximum, l does not.",
            _merge_by(_factor_1, _factor_2, sum_too=False),
        ),
        Mistake(
            "the outputs not rescaled",
            "l follows the new maximum, U does not.",
            _merge_by(_factor_1, _factor_2, output_too=False),
        ),
        Mistake(
            "factors swapped",
            "the half with the smaller maximum has to shrink. Try m_1 = 0 and m_2 = 2.",
            _merge_by(_factor_2, _factor_1),
        ),
        Mistake(
            "the factors upside down",
            "a factor of e^(m - m_1) is at least 1, and grows without end. Which half has to shrink, and by how much?",
            _merge_by(
                lambda m_1, m_2, m: np.exp(m - np.where(np.isneginf(m_1), m, m_1)),
                lambda m_1, m_2, m: np.exp(m - np.where(np.isneginf(m_2), m, m_2)),
            ),
        ),
        Mistake(
            "minus infinity minus minus infinity",
            "right wherever one of the halves has something to read. Where both have nothing, the difference of the "
            "maxima is no number.",
            _merge_careless,
        ),
        Mistake(
            "the first maximum kept",
            "right in exact numbers where the first half has something to read. But where the second maximum is larger "
            "by 1000, your factor is e^1000.",
            _merge_onto_first,
        ),
        Mistake(
            "the maxima put back in",
            "e^m times l is the plain sum of exponentials, and that overflows. What was the maximum there for?",
            _merge_without_maximum,
        ),
        Mistake(
            "divided already",
            "U should stay unnormalised, so that a third half can be merged in. You return U / l.",
            _merge_divided,
        ),
        Mistake(
            "the mean of two means",
            "both halves count the same in your output. How much of the whole sum does each have?",
            _merge_means,
        ),
    ),
)


def check_merge(fn: Any) -> CheckResult:
    """Check ``fn(m_1, l_1, U_1, m_2, l_2, U_2)``: maximum, sum and unnormalised output of two halves, as one."""
    return check(MERGE, fn)


# ---------------------------------------------------------------------------------------------------------------------
# One step of generation with a cache
# ---------------------------------------------------------------------------------------------------------------------


def _decode_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for lengths, room, d_model, d_h, d_v in (
        ([3, 3], 6, 7, 4, 5),
        ([5, 2, 4], 8, 6, 2, 3),
        ([0, 1], 3, 5, 6, 4),
        ([6, 1, 0, 3], 7, 3, 5, 2),
    ):
        B = len(lengths)
        x = rng.normal(size=(B, d_model))
        # Beyond the length of a sequence stands what an earlier one has left there.
        K, V = rng.normal(size=(B, room, d_h)), rng.normal(size=(B, room, d_v))
        W = [rng.normal(size=(d_model, width)) for width in (d_h, d_h, d_v)]
        cases.append((x, K, V, np.array(lengths), *W))
    return cases


def _decode(
    x: Any,
    K: Any,
    V: Any,
    lengths: Any,
    W_Q: Any,
    W_K: Any,
    W_V: Any,
    *,
    place: Callable = lambda lengths, room: lengths,
    readable: Callable = lambda j, lengths: j <= lengths,
    write_first: bool = True,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write the new key and value into the cache, read it, and return H, K, V; arguments make it go wrong."""
    grown_K, grown_V, rows = K.copy(), V.copy(), np.arange(len(x))
    at = place(lengths, K.shape[1])
    grown_K[rows, at], grown_V[rows, at] = x @ W_K, x @ W_V
    mask = readable(np.arange(K.shape[1])[None, :], lengths[:, None])
    seen = (grown_K, grown_V) if write_first else (K, V)
    H = attention((x @ W_Q)[:, None], *seen, mask=mask[:, None], scale=scale).H[:, 0]
    return H, grown_K, grown_V


def _decode_view(case: tuple, result: Any) -> np.ndarray:
    """Return H, and of the cache what the grown sequences hold, in one row for each sequence."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Unreadable(_("something else than three arrays ({names}).").format(names="H, K, V"))
    result = [np.asarray(part.detach() if hasattr(part, "detach") else part, float) for part in result]
    x, K, V, lengths = case[:4]
    for name, got, asked in zip("HKV", result, ((len(x), V.shape[-1]), K.shape, V.shape), strict=True):
        if got.shape != asked:
            what = _("{name} of shape {got}, but it should be {want}.")
            raise Unreadable(what.format(name=name, got=shape_of(got), want=list(asked)))
    H, grown_K, grown_V = result
    held = (np.arange(K.shape[1]) <= lengths[:, None])[..., None]
    parts = (H, np.where(held, grown_K, 0.0), np.where(held, grown_V, 0.0))
    return np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)


def _all_keys(j: Any, lengths: Any) -> np.ndarray:
    return np.broadcast_to(True, np.broadcast_shapes(j.shape, lengths.shape))


def _longest(lengths: Any, room: int) -> np.ndarray:
    return np.full_like(lengths, lengths.max())


def _first(lengths: Any, room: int) -> np.ndarray:
    return np.full_like(lengths, lengths[0])


def _nothing_kept(x: Any, K: Any, V: Any, *others: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _decode(x, K, V, *others)[0], K, V


def _swapped(x: Any, K: Any, V: Any, lengths: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    return _decode(x, K, V, lengths, W_K, W_Q, W_V)


def _scaled_by_the_token(x: Any, K: Any, *others: Any) -> Any:
    return _decode(x, K, *others, scale=x.shape[-1] ** -0.5)


def _softmax_over_the_batch(x: Any, K: Any, V: Any, lengths: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    _, grown_K, grown_V = _decode(x, K, V, lengths, W_Q, W_K, W_V)
    S = np.einsum("bd,bjd->bj", x @ W_Q, grown_K) / np.sqrt(W_Q.shape[1])
    A = _plain_softmax(apply_mask(S, np.arange(K.shape[1])[None, :] <= lengths[:, None]).T).T
    return np.einsum("bj,bjd->bd", np.nan_to_num(A), grown_V), grown_K, grown_V


DECODE_STEP = Exercise(
    arguments=("x", "K", "V", "lengths", "W_Q", "W_K", "W_V"),
    reference=_decode,
    cases=_decode_cases,
    view=_decode_view,
    success="Sequences of unequal length read their own past and themselves, and nothing that was left in the cache.",
    symptoms=(
        Symptom(
            "your H is right, but the cache does not hold what the next step needs.",
            lambda case, got: np.allclose(_head_part(case, got), _head_part(case, _right_view(case))),
        ),
        Symptom(
            "the cache is right, your H is not.",
            lambda case, got: np.allclose(_cache_part(case, got), _cache_part(case, _right_view(case))),
        ),
    ),
    mistakes=(
        Mistake(
            "the new token does not read itself",
            "your query reads the past alone, and in an empty cache nothing. A causal mask keeps the diagonal.",
            lambda *case: _decode(*case, readable=lambda j, lengths: j < lengths),
        ),
        Mistake(
            "read before it is written",
            "the place of the new token is read, but its key and value are not there yet: something old is.",
            lambda *case: _decode(*case, write_first=False),
        ),
        Mistake(
            "the whole cache is read",
            "the places beyond a sequence's length hold what was left there. Which keys may each query read?",
            lambda *case: _decode(*case, readable=_all_keys),
        ),
        Mistake(
            "all sequences as long as the longest",
            "right if all have the same length. A shorter one has a gap then, and reads what lies in it.",
            lambda *case: _decode(*case, place=_longest, readable=lambda j, lengths: j <= lengths.max()),
        ),
        Mistake(
            "all sequences as long as the first",
            "right if all have the same length. lengths holds one number for each sentence.",
            lambda *case: _decode(*case, place=_first, readable=lambda j, lengths: j <= lengths[0]),
        ),
        Mistake(
            "written after the longest",
            "the key of a shorter sequence lands beyond what that sequence reads. Where does its next token belong?",
            lambda *case: _decode(*case, place=_longest),
        ),
        Mistake(
            "the last token overwritten",
            "a sequence of length 3 fills the places 0, 1 and 2. Which one is free?",
            lambda *case: _decode(*case, place=lambda lengths, room: lengths - 1),
        ),
        Mistake(
            "written past the free place",
            "a sequence of length 3 fills the places 0, 1 and 2. Between them and your new key lies a place that holds "
            "nothing of this sequence.",
            lambda *case: _decode(*case, place=lambda lengths, room: np.minimum(lengths + 1, room - 1)),
        ),
        Mistake(
            "one key too many",
            "after this step a sequence has length + 1 tokens, at the places 0 to length. You read one more.",
            lambda *case: _decode(*case, readable=lambda j, lengths: j <= lengths + 1),
        ),
        Mistake(
            "the cache comes back as it was",
            "your H is right. But the next token will not find this one.",
            _nothing_kept,
        ),
        Mistake(
            "queries and keys swapped",
            "what is stored is what later tokens compare their query with. Which of the matrices makes that?",
            _swapped,
        ),
        Mistake(
            "scale forgotten",
            "the dot products of a wider head are larger. What are they divided by?",
            lambda *case: _decode(*case, scale=1.0),
        ),
        Mistake(
            "scaled by d_model",
            "the dot product has as many terms as queries and keys have components. How many does the token have?",
            _scaled_by_the_token,
        ),
        Mistake(
            "softmax over the batch",
            "the sequences of the batch share out one whole. Which axis of your scores runs over the keys?",
            _softmax_over_the_batch,
        ),
    ),
)


def _right_view(case: tuple) -> np.ndarray:
    return _decode_view(case, _decode(*case))


def _head_part(case: tuple, view: np.ndarray) -> np.ndarray:
    return view[:, : case[2].shape[-1]]


def _cache_part(case: tuple, view: np.ndarray) -> np.ndarray:
    return view[:, case[2].shape[-1] :]


def check_decode_step(fn: Any) -> CheckResult:
    """Check ``fn(x, K, V, lengths, W_Q, W_K, W_V)``: one new token for each sequence; H and the grown K and V."""
    return check(DECODE_STEP, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Deeper: a running state
# ---------------------------------------------------------------------------------------------------------------------


def _state_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = ((5, 3, 2), (1, 2, 4), (9, 4, 3), (12, 6, 7))
    return [
        (*(rng.random(size=(N, d)) + 0.05 for d in (d_phi, d_phi)), rng.normal(size=(N, d_v)))
        for N, d_phi, d_v in sizes
    ]


def _quadratic(phi_Q: Any, phi_K: Any, V: Any, *, mask: Any = None, divide: bool = True) -> np.ndarray:
    """Return causal linear attention by way of all pairs."""
    A = phi_Q @ phi_K.T * (np.tri(len(phi_Q)) if mask is None else mask)
    total = A.sum(axis=-1, keepdims=True)
    return A @ V / np.where(total == 0, 1, total) if divide else A @ V


def _with_state(change: Callable) -> Callable:
    """Return a function that gives the H of `change`, and the right state."""
    return lambda phi_Q, phi_K, V: (change(phi_Q, phi_K, V), phi_K.T @ V, phi_K.sum(axis=0))


def _state_view(case: tuple, result: Any) -> np.ndarray:
    """Return H, Z and z one after the other."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Unreadable(_("something else than three arrays ({names}).").format(names="H, Z, z"))
    result = [np.asarray(part.detach() if hasattr(part, "detach") else part, float) for part in result]
    phi_K, V = case[1:]
    d_phi, d_v = phi_K.shape[1], V.shape[1]
    for name, got, asked in zip(("H", "Z", "z"), result, (V.shape, (d_phi, d_v), (d_phi,)), strict=True):
        if got.shape != asked:
            what = _("{name} of shape {got}, but it should be {want}.")
            raise Unreadable(what.format(name=name, got=shape_of(got), want=list(asked)))
    return np.concatenate([part.ravel() for part in result])


def _forgetful(phi_Q: Any, phi_K: Any, V: Any) -> Any:
    H = _quadratic(phi_Q, phi_K, V, mask=np.eye(len(V)))
    return H, np.outer(phi_K[-1], V[-1]), phi_K[-1]


def _sum_forgotten(phi_Q: Any, phi_K: Any, V: Any) -> Any:
    sums, H = np.cumsum(phi_K[:, :, None] * V[:, None, :], axis=0), []
    for q, k, M in zip(phi_Q, phi_K, sums, strict=True):
        H.append(q @ M / (q @ k))
    return np.array(H), sums[-1], phi_K[-1]


def _early(phi_Q: Any, phi_K: Any, V: Any) -> np.ndarray:
    return _quadratic(phi_Q, phi_K, V, mask=np.tri(len(V), k=-1))


def _divided_by_all(phi_Q: Any, phi_K: Any, V: Any) -> np.ndarray:
    return _quadratic(phi_Q, phi_K, V, divide=False) / (phi_Q @ phi_K.sum(axis=0))[:, None]


LINEAR_STATE = Exercise(
    arguments=("phi_Q", "phi_K", "V"),
    reference=_with_state(_quadratic),
    cases=_state_cases,
    view=_state_view,
    success="All of the past stands in one matrix and one vector, which do not grow.",
    symptoms=(
        Symptom(
            "the last row of H is right, and an earlier one is not: has it read its future?",
            lambda case, got: _rows_that_agree(case, got)[-1] and not _rows_that_agree(case, got).all(),
        ),
        Symptom(
            "the first row of H should be the first value, since there is nothing else to read.",
            lambda case, got: not _rows_that_agree(case, got)[0],
        ),
        Symptom(
            "H is right, the state that you return is not that of the end.",
            lambda case, got: _rows_that_agree(case, got).all(),
        ),
    ),
    mistakes=(
        Mistake(
            "read before it is written",
            "each token reads the past without itself, and the first one reads nothing. Which comes first in a step?",
            _with_state(_early),
        ),
        Mistake(
            "not causal",
            "every query reads the state of the end. What did it hold when that query had its turn?",
            _with_state(lambda phi_Q, phi_K, V: _quadratic(phi_Q, phi_K, V, mask=1.0)),
        ),
        Mistake(
            "divided by the sum over all keys",
            "the values are those up to the query, the sum runs over the future as well.",
            _with_state(_divided_by_all),
        ),
        Mistake(
            "not divided",
            "the weights do not sum to 1. Set all values to 1: what should come out?",
            _with_state(lambda phi_Q, phi_K, V: _quadratic(phi_Q, phi_K, V, divide=False)),
        ),
        Mistake(
            "divided by the number of keys",
            "the weights of a query do not sum to its number of keys. Set all values to 1: what should come out?",
            _with_state(
                lambda phi_Q, phi_K, V: _quadratic(phi_Q, phi_K, V, divide=False) / np.arange(1, len(V) + 1)[:, None]
            ),
        ),
        Mistake(
            "multiplied instead of divided",
            "the sum stands above the line. Set all values to 1: what should come out?",
            _with_state(
                lambda phi_Q, phi_K, V: (
                    _quadratic(phi_Q, phi_K, V, divide=False) * (phi_Q * np.cumsum(phi_K, axis=0)).sum(-1)[:, None]
                )
            ),
        ),
        Mistake(
            "the state overwritten",
            "each step replaces the state instead of adding to it: every token reads itself alone.",
            _forgetful,
        ),
        Mistake(
            "the sum overwritten",
            "the matrix grows by every pair, the vector z holds the last key alone.",
            _sum_forgotten,
        ),
        Mistake(
            "a softmax after all",
            "the features are there already: their dot products are the weights, up to the division. No exponential is "
            "needed.",
            _with_state(lambda phi_Q, phi_K, V: attention(phi_Q, phi_K, V, mask=causal_mask(len(V)), scale=1.0).H),
        ),
    ),
)


def _rows_that_agree(case: tuple, got: np.ndarray) -> np.ndarray:
    H = got[: case[2].size].reshape(case[2].shape)
    return np.isclose(H, _quadratic(*case)).all(axis=-1)


def check_linear_state(fn: Any) -> CheckResult:
    """Check ``fn(phi_Q, phi_K, V)``: causal linear attention by a running state; H and the state at the end."""
    return check(LINEAR_STATE, fn)

"""The exercises of chapter 13: two masks, a causal call, a packed matrix, a production block. In torch tensors."""

from typing import Any

import numpy as np

from attnlib._arrays import shape_of
from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, Unreadable, as_plain_array, check, kind
from attnlib.exercises._language import _
from attnlib.masks import causal_mask
from attnlib.multi_head import MultiHeadWeights, multi_head_attention
from attnlib.single_head import attention


def as_tensor(x: Any) -> Any:
    """Return an array as a torch tensor that shares its memory; anything else as it is."""
    import torch  # here: who imports the checks of another chapter does not wait for torch

    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


# ---------------------------------------------------------------------------------------------------------------------
# The two masks of nn.MultiheadAttention
# ---------------------------------------------------------------------------------------------------------------------


def _masks_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for (B, N), pad_id in [((2, 5), 0), ((3, 4), 0), ((2, 6), 7), ((4, 3), 2), ((5, 7), 4)]:
        words = np.setdiff1d(np.arange(10), pad_id)
        T = rng.choice(words, size=(B, N))
        for row, length in zip(T[1:], rng.integers(1, N, size=B - 1), strict=True):  # the first sentence is full
            row[length:] = pad_id
        T[0, -1] = words[0]  # id 0, unless that is the padding
        cases.append((T, pad_id))
    return cases


def _factors(case: tuple, result: Any) -> np.ndarray:
    """Return what the two masks do: by how much the exponential of each score is multiplied, [B, N, N]."""
    B, N = case[0].shape
    if not isinstance(result, tuple | list) or len(result) != 2:
        what = _("{kind}, but two masks were asked for: (key_padding_mask, attn_mask).")
        raise Unreadable(what.format(kind=kind(result)))
    wanted = {"key_padding_mask": (B, N), "attn_mask": (N, N)}
    added = {name: _added(name, mask, shape) for (name, shape), mask in zip(wanted.items(), result, strict=True)}
    return np.exp(added["key_padding_mask"][:, None, :] + added["attn_mask"])


def _added(name: str, mask: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return what the module adds to the scores for a mask of its own convention."""
    if mask is None:
        return np.zeros(shape)
    array = as_plain_array(mask)
    if array is None:
        raise Unreadable(_("{kind} as {name}.").format(kind=kind(mask), name=name))
    if array.shape != shape:
        what = _("{name} {got}; the module asks for {want}.")
        raise Unreadable(what.format(name=name, got=shape_of(array), want=list(shape)))
    if array.dtype.kind not in "bf":
        what = _("{name} of {dtype}; the module takes booleans or floating numbers.")
        raise Unreadable(what.format(name=name, dtype=array.dtype))
    return np.where(array, -np.inf, 0.0) if array.dtype == bool else array.astype(float)


def _after(T: Any, diagonal: int = 1) -> np.ndarray:
    """Return True where the key stands at least so many places after the query, [N, N]."""
    return np.triu(np.ones((T.shape[1], T.shape[1]), dtype=bool), diagonal)


_NUMBERS = (
    "numbers are added to the scores: a key whose score rises by 1 is read more. Which number added to a score makes "
    "its exponential 0?"
)

MODULE_MASKS = Exercise(
    arguments=("T", "pad_id"),
    reference=lambda T, pad_id: (T == pad_id, _after(T)),
    cases=_masks_cases,
    convert=as_tensor,
    view=_factors,
    success="Padding and future are hidden, and nothing else.",
    symptoms=(
        Symptom(
            "a word may not be read by itself or by a word after it.",
            lambda case, got: (got[0][~_after(case[0])] == 0).any(),
        ),
        Symptom("a token may read one that comes after it.", lambda case, got: (got[:, _after(case[0])] != 0).any()),
        Symptom(
            "padding may be read.",
            lambda case, got: (np.swapaxes(got, 1, 2)[case[0] == case[1]] != 0).any(),
        ),
    ),
    mistakes=(
        Mistake(
            "both the wrong way round",
            "that is how this book and F.scaled_dot_product_attention mean True. nn.MultiheadAttention means the "
            "opposite: print both masks for a sentence of three words, and read a row aloud.",
            lambda T, pad_id: (T != pad_id, ~_after(T)),
        ),
        Mistake(
            "padding the wrong way round",
            "your attn_mask is right, but your key_padding_mask is True for words. True hides a key.",
            lambda T, pad_id: (T != pad_id, _after(T)),
        ),
        Mistake(
            "future the wrong way round",
            "your key_padding_mask is right, but your attn_mask is True for what may be read. True hides a key.",
            lambda T, pad_id: (T == pad_id, ~_after(T)),
        ),
        Mistake(
            "the past hidden",
            "True marks the lower triangle, without the diagonal: each token reads itself and its future. Rows are "
            "queries, columns are keys.",
            lambda T, pad_id: (T == pad_id, _after(T).T),
        ),
        Mistake(
            "diagonal hidden",
            "no token may read itself, and the first may read nothing. Where does the future begin, at j = i or after?",
            lambda T, pad_id: (T == pad_id, _after(T, 0)),
        ),
        Mistake(
            "one step into the future",
            "each token also reads the next one. Where does the future begin?",
            lambda T, pad_id: (T == pad_id, _after(T, 2)),
        ),
        Mistake(
            "ones for what is hidden",
            _NUMBERS,
            lambda T, pad_id: ((T == pad_id) * 1.0, _after(T) * 1.0),
        ),
        Mistake(
            "ones for what may be read",
            _NUMBERS,
            lambda T, pad_id: ((T != pad_id) * 1.0, ~_after(T) * 1.0),
        ),
        Mistake(
            "padding id 0 assumed",
            "right as long as the padding has id 0. Another vocabulary may give that id to a word.",
            lambda T, pad_id: (T == 0, _after(T)),
        ),
        Mistake(
            "padding forgotten",
            "the future is hidden, the padding is not.",
            lambda T, pad_id: (None, _after(T)),
        ),
        Mistake(
            "future forgotten",
            "the padding is hidden, the future is not.",
            lambda T, pad_id: (T == pad_id, None),
        ),
    ),
)


def check_module_masks(fn: Any) -> CheckResult:
    """Check ``fn(T, pad_id)``: the pair (key_padding_mask, attn_mask) for a causal module and ids [B, N]."""
    return check(MODULE_MASKS, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A causal call with fewer queries than keys
# ---------------------------------------------------------------------------------------------------------------------


def _sdpa(Q: Any, K: Any, V: Any, **options: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(Q, K, V, **options)


def _short_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [
        (2, 3, 4, 7, 5),  # B, h, N_q, N_k, d_h
        (1, 2, 1, 6, 4),  # one new token
        (3, 2, 5, 5, 4),  # no cache yet
        (2, 4, 3, 8, 6),
        (3, 2, 2, 9, 5),
    ]
    return [tuple(rng.normal(size=(B, h, n, d_h)) for n in (N_q, N_k, N_k)) for B, h, N_q, N_k, d_h in sizes]


def _ends(Q: Any, K: Any, shift: int = 0) -> Any:
    """Return the causal mask that is aligned at the end, with its diagonal moved by `shift`; in torch."""
    return as_tensor(np.tri(Q.shape[2], K.shape[2], K.shape[2] - Q.shape[2] + shift, dtype=bool))


SHORT_CAUSAL = Exercise(
    arguments=("Q", "K", "V"),
    reference=lambda Q, K, V: attention(Q, K, V, mask=causal_mask(Q.shape[2], K.shape[2])).H,
    cases=_short_cases,
    convert=as_tensor,
    own=(attention,),
    success="One new token, several, or all of them.",
    symptoms=(
        Symptom(
            "the last query does not read all keys.",
            lambda case, got: (
                got.shape == case[0].shape and not np.allclose(got[:, :, -1], attention(*case).H[:, :, -1])
            ),
        ),
        Symptom("the last query is right, an earlier one is not.", lambda case, got: got.shape == case[0].shape),
    ),
    mistakes=(
        Mistake(
            "is_causal=True",
            "right for a square. With fewer queries than keys PyTorch counts both from the start, as if the queries "
            "were the first tokens. Build the mask yourself: which key is the last query's own?",
            lambda Q, K, V: _sdpa(Q, K, V, is_causal=True),
        ),
        Mistake(
            "no mask",
            "right for one new token. Of several, the first must not read the last.",
            lambda Q, K, V: _sdpa(Q, K, V),
        ),
        Mistake(
            "no mask when there is a cache",
            "you mask squares only. A square is right, and so is one new token; of several new tokens the first "
            "reads the last.",
            lambda Q, K, V: _sdpa(Q, K, V, is_causal=Q.shape[2] == K.shape[2]),
        ),
        Mistake(
            "is_causal for more than one query",
            "right for a square and for one new token. Several new tokens beside a cache are counted from the start.",
            lambda Q, K, V: _sdpa(Q, K, V, is_causal=Q.shape[2] > 1),
        ),
        Mistake(
            "True hides",
            "that is the mask of nn.MultiheadAttention. In F.scaled_dot_product_attention True means: may be read.",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=~_ends(Q, K)),
        ),
        Mistake(
            "True hides, aligned at the start",
            "two things at once: True means \u201cmay be read\u201d here, and the queries are the last tokens.",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=~_ends(Q, K, Q.shape[2] - K.shape[2])),
        ),
        Mistake(
            "a mask of ones and zeros",
            "numbers are added to the scores, so your mask raises what may be read by 1 and hides nothing.",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=_ends(Q, K).to(Q.dtype)),
        ),
        Mistake(
            "diagonal hidden",
            "no query may read its own token. What is the first token of a sentence to read?",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=_ends(Q, K, -1)),
        ),
        Mistake(
            "one step into the future",
            "each query also reads the token after its own.",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=_ends(Q, K, 1)),
        ),
        Mistake(
            "shifted the wrong way",
            "with a longer cache your queries read less. The first of two queries over five keys is token 3: how many "
            "keys may it read?",
            lambda Q, K, V: _sdpa(Q, K, V, attn_mask=_ends(Q, K, 2 * (Q.shape[2] - K.shape[2]))),
        ),
        Mistake(
            "only the newest keys",
            "you kept as many keys as there are queries. The others are what a cache is for.",
            lambda Q, K, V: _sdpa(Q, K[:, :, -Q.shape[2] :], V[:, :, -Q.shape[2] :], is_causal=True),
        ),
        Mistake(
            "scaled twice",
            "the function divides by the root of d_h itself.",
            lambda Q, K, V: _sdpa(Q / Q.shape[3] ** 0.5, K, V, attn_mask=_ends(Q, K)),
        ),
    ),
)


def check_short_causal(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, V)``: causal attention whose queries are the last of the keys' tokens; H [B, h, N_q, d_h]."""
    return check(SHORT_CAUSAL, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Unpack in_proj_weight
# ---------------------------------------------------------------------------------------------------------------------


def _packed_cases(rng: np.random.Generator) -> list[tuple]:
    return [(rng.normal(size=(3 * d, d)),) for d in (6, 12, 3, 9)]


def _three(case: tuple, result: Any) -> np.ndarray:
    """Return three matrices as one array, [3, rows, columns]."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        what = _("{kind}, but three matrices were asked for: (W_Q, W_K, W_V).")
        raise Unreadable(what.format(kind=kind(result)))
    arrays = [as_plain_array(W) for W in result]
    if any(W is None for W in arrays):
        raise Unreadable(_("three things that are not all arrays of numbers."))
    if len({W.shape for W in arrays}) > 1:
        shapes = _(", ").join(shape_of(W) for W in arrays)
        raise Unreadable(_("matrices of shapes {shapes}; all three should be equal.").format(shapes=shapes))
    return np.stack(arrays)


def _blocks(packed: Any) -> list:
    """Return the three blocks of rows, as torch packs them."""
    d = packed.shape[1]
    return [packed[place * d : (place + 1) * d] for place in range(3)]


def _in_order(*places: int) -> Any:
    return lambda packed: tuple(_blocks(packed)[place].T for place in places)


UNPACK = Exercise(
    arguments=("in_proj_weight",),
    reference=_in_order(0, 1, 2),
    cases=_packed_cases,
    convert=as_tensor,
    view=_three,
    success="X @ W_Q, X @ W_K and X @ W_V are what the module computes, without its biases.",
    symptoms=(
        Symptom(
            "your W_Q does not hold the numbers of the first d_model rows of in_proj_weight.",
            lambda case, got: (
                got.shape == (3, *[case[0].shape[1]] * 2)
                and not np.array_equal(np.sort(got[0], axis=None), np.sort(_blocks(case[0])[0], axis=None))
            ),
        ),
    ),
    mistakes=(
        Mistake(
            "not transposed",
            "the blocks are right. But torch computes X @ W.T with what it stores, and this book X @ W.",
            lambda packed: tuple(_blocks(packed)),
        ),
        Mistake(
            "columns cut",
            "in_proj_weight is [3 * d_model, d_model]. Which of its axes is three times as long?",
            lambda packed: packed.chunk(3, 1),
        ),
        Mistake(
            "transposed, then cut by rows",
            "after the transpose the long axis is the other one.",
            lambda packed: packed.T.chunk(3, 0),
        ),
        Mistake(
            "transposed, then reshaped",
            "the shape is right, the content is not: after the transpose, the blocks lie side by side in each row. A "
            "reshape cuts the rows one after the other.",
            lambda packed: tuple(packed.T.reshape(3, *[packed.shape[1]] * 2)),
        ),
        Mistake(
            "every third row",
            "the rows of W_Q stand together, at the top. You took every third row.",
            lambda packed: tuple(packed[place::3].T for place in range(3)),
        ),
        Mistake(
            "every third row, not transposed",
            "the rows of W_Q stand together, at the top. You took every third row; and what torch stores still has to "
            "be transposed.",
            lambda packed: tuple(packed[place::3] for place in range(3)),
        ),
        Mistake("keys first", "the first block is not that of the keys.", _in_order(1, 0, 2)),
        Mistake("values before keys", "queries first, and then?", _in_order(0, 2, 1)),
        Mistake("values first", "your order is the reverse of that of the module.", _in_order(2, 1, 0)),
        Mistake("the same block three times", "your three matrices are all the first block.", _in_order(0, 0, 0)),
    ),
)


def check_unpack(fn: Any) -> CheckResult:
    """Check ``fn(in_proj_weight)``: (W_Q, W_K, W_V) of this book, each [d_model, d_model]."""
    return check(UNPACK, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The attention of a GPT block
# ---------------------------------------------------------------------------------------------------------------------


def _block_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, N, h, d_h in [(2, 7, 3, 4), (3, 5, 2, 6), (2, 4, 5, 3), (1, 6, 4, 2), (3, 3, 3, 3)]:
        d = h * d_h
        shapes = [(B, N, d), (3 * d, d), (3 * d,), (d, d), (d,)]
        x, W_attn, b_attn, W_proj, b_proj = (rng.normal(size=shape) for shape in shapes)
        cases.append((x, W_attn / d**0.5, b_attn, W_proj / d**0.5, b_proj, h))
    return cases


def _right_block(x: Any, W_attn: Any, b_attn: Any, W_proj: Any, b_proj: Any, h: int) -> Any:
    d = x.shape[2]
    W, b = (W.T for W in W_attn.split(d)), b_attn.split(d)
    weights = MultiHeadWeights(*W, W_proj.T, h, *b, b_proj)
    return multi_head_attention(x, weights, mask=causal_mask(x.shape[1])).output


def _split(z: Any, h: int) -> Any:
    return z.view(*z.shape[:2], h, -1).transpose(1, 2)


def _merge(y: Any) -> Any:
    return y.transpose(1, 2).flatten(2)


def _thirds(qkv: Any, h: int) -> Any:
    return qkv.chunk(3, -1)


def _head_by_head(qkv: Any, h: int) -> list:
    by_head = qkv.view(*qkv.shape[:2], h, 3, -1)
    return [by_head[:, :, :, place].flatten(2) for place in range(3)]


def _block(*, cut: Any = _thirds, split: Any = _split, merge: Any = _merge, order: tuple = (0, 1, 2), **options: Any):
    """Return the block with some of its parts exchanged, and these options in its call of torch's function."""

    def block(x, W_attn, b_attn, W_proj, b_proj, h):
        parts = [split(z, h) for z in cut(x @ W_attn.T + b_attn, h)]
        y = _sdpa(*(parts[place] for place in order), **{"is_causal": True} | options)
        return merge(y).reshape(x.shape) @ W_proj.T + b_proj

    return block


def _scaled_by_d_model(x, W_attn, b_attn, W_proj, b_proj, h):
    return _block(scale=x.shape[2] ** -0.5)(x, W_attn, b_attn, W_proj, b_proj, h)


def _first_token(x, W_attn, b_attn, W_proj, b_proj, h):
    """Return the output of the first tokens: they read their own value, whatever the scores are."""
    d = x.shape[2]
    return (x[:, 0] @ W_attn[2 * d :].T + b_attn[2 * d :]) @ W_proj.T + b_proj


def _true_hides(x, W_attn, b_attn, W_proj, b_proj, h):
    return _block(attn_mask=as_tensor(_after(x)), is_causal=False)(x, W_attn, b_attn, W_proj, b_proj, h)


BLOCK = Exercise(
    arguments=("x", "W_attn", "b_attn", "W_proj", "b_proj", "h"),
    reference=_right_block,
    cases=_block_cases,
    convert=as_tensor,
    success="That is the attention of a GPT, up to dropout.",
    symptoms=(
        Symptom(
            "the first token of a sentence, which reads only itself, is wrong: look at matrices, biases and heads "
            "before you look at the mask.",
            lambda case, got: not np.allclose(got[:, 0], _first_token(*case)),
        ),
        Symptom(
            "the first token of a sentence, which reads only itself, is right, and others are not: who reads whom?",
            lambda case, got: True,
        ),
    ),
    mistakes=(
        Mistake(
            "not causal",
            "every token reads every other. Which argument of the function hides the future?",
            _block(is_causal=False),
        ),
        Mistake(
            "True hides",
            "that is the mask of nn.MultiheadAttention: here your tokens read their future, and the last one nothing.",
            _true_hides,
        ),
        Mistake(
            "split by a bare reshape",
            "[B, h, N, d_h] is the right shape. A view does not move numbers, so your heads hold parts of the "
            "sentence instead of parts of every token. Cut first, then swap.",
            _block(split=lambda z, h: z.reshape(len(z), h, z.shape[1], -1)),
        ),
        Mistake(
            "merged by a bare reshape",
            "the heads are split rightly. On the way back, heads and tokens have to change places before the reshape.",
            _block(merge=lambda y: y),
        ),
        Mistake(
            "split and merged by bare reshapes",
            "one undoes the other, so shapes and round trips are right. But your heads hold parts of the sentence.",
            _block(split=lambda z, h: z.reshape(len(z), h, z.shape[1], -1), merge=lambda y: y),
        ),
        Mistake(
            "heads read heads",
            "the function takes its last two axes for tokens and components. Yours are heads and components.",
            _block(split=lambda z, h: z.view(*z.shape[:2], h, -1), merge=lambda y: y),
        ),
        Mistake(
            "components dealt out like cards",
            "your head 0 takes every h-th component. Which of h and d_h comes last in the view?",
            _block(
                split=lambda z, h: z.view(*z.shape[:2], -1, h).permute(0, 3, 1, 2),
                merge=lambda y: y.permute(0, 2, 3, 1),
            ),
        ),
        Mistake(
            "cut head by head",
            "you cut as if each head had its q, k and v side by side. Some models store them so; here all queries "
            "come first, then all keys, then all values.",
            _block(cut=_head_by_head),
        ),
        Mistake("keys and queries swapped", "which third of the rows comes first?", _block(order=(1, 0, 2))),
        Mistake("values first", "your order is the reverse: queries come first.", _block(order=(2, 1, 0))),
        Mistake("keys and values swapped", "queries first, and then?", _block(order=(0, 2, 1))),
        Mistake(
            "scaled by d_model",
            "each head compares d_h components. The function knows: leave scale alone.",
            _scaled_by_d_model,
        ),
        Mistake(
            "output matrix not transposed",
            "nn.Linear stores [out, in] and multiplies by the transpose. W_proj is square, so nothing complained.",
            lambda x, W_attn, b_attn, W_proj, b_proj, h: _block()(x, W_attn, b_attn, W_proj.T, b_proj, h),
        ),
        Mistake(
            "first bias forgotten",
            "one of the two biases is missing: that of queries, keys and values.",
            lambda x, W_attn, b_attn, W_proj, b_proj, h: _block()(x, W_attn, 0 * b_attn, W_proj, b_proj, h),
        ),
        Mistake(
            "last bias forgotten",
            "one of the two biases is missing: that of the output.",
            lambda x, W_attn, b_attn, W_proj, b_proj, h: _block()(x, W_attn, b_attn, W_proj, 0 * b_proj, h),
        ),
        Mistake(
            "both biases forgotten",
            "the matrices are right. nn.Linear also adds a bias.",
            lambda x, W_attn, b_attn, W_proj, b_proj, h: _block()(x, W_attn, 0 * b_attn, W_proj, 0 * b_proj, h),
        ),
        Mistake(
            "not projected",
            "the heads are joined, and the last matrix is missing.",
            lambda x, W_attn, b_attn, W_proj, b_proj, h: _block()(
                x, W_attn, b_attn, as_tensor(np.eye(x.shape[2])), 0 * b_proj, h
            ),
        ),
        Mistake(
            "residual added",
            "the block adds x elsewhere. Here only what attention computes is wanted.",
            lambda x, *rest: x + _block()(x, *rest),
        ),
    ),
)


def check_block(fn: Any) -> CheckResult:
    """Check ``fn(x, W_attn, b_attn, W_proj, b_proj, h)``: causal self-attention with fused weights, [B, N, d_model]."""
    return check(BLOCK, fn)

"""Chapter 6: several heads side by side. Split, attend, concat, project."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from attnlib._arrays import check_axes, check_same, check_whole, floating_namespace, namespace, shape_of
from attnlib.masks import check_mask, drop_unread
from attnlib.single_head import attention, project


def split_heads(X: Float[Any, "*b N d_model"], h: int) -> Float[Any, "*b {h} N d_h"]:
    r"""Cut each token vector into h consecutive pieces and give each head its piece of all tokens.

    .. math:: \mathrm{split}(X)_{a,i,\ell} = X_{i,\;a d_h + \ell}, \qquad d_h = d_\mathrm{model} / h

    Parameters
    ----------
    X : array, shape (..., N, d_model)
    h : int
        Number of heads; divides d_model.

    Returns
    -------
    array, shape (..., h, N, d_h)

    Raises
    ------
    ValueError
        d_model is not divisible by h.

    Notes
    -----
    The reshape cuts vectors, the swap of two axes brings heads before tokens. A bare reshape to the same
    shape would mix tokens.

    Examples
    --------
    >>> import numpy as np
    >>> split_heads(np.arange(8.0).reshape(1, 2, 4), 2)[0]
    array([[[0., 1.],
            [4., 5.]],
    <BLANKLINE>
           [[2., 3.],
            [6., 7.]]])
    """
    xp = namespace(X=X)
    check_axes("X", X, "N d_model")
    h = check_heads(h, X.shape[-1], "d_model")
    pieces = xp.reshape(X, (*X.shape[:-1], h, X.shape[-1] // h))
    return xp.moveaxis(pieces, -2, -3)


def concat_heads(H: Float[Any, "*b h N d_h"]) -> Float[Any, "*b N d_concat"]:
    r"""Put the heads' outputs for each token back into one vector, head after head.

    .. math:: \mathrm{concat} = \mathrm{Concat}(H_1, \ldots, H_h)

    Parameters
    ----------
    H : array, shape (..., h, N, d_h)

    Returns
    -------
    array, shape (..., N, h * d_h)
        The inverse of `split_heads`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(24.0).reshape(2, 3, 4)
    >>> bool((concat_heads(split_heads(X, 2)) == X).all())
    True
    """
    xp = namespace(H=H)
    check_axes("H", H, "h N d_h")
    by_token = xp.moveaxis(H, -3, -2)
    return xp.reshape(by_token, (*by_token.shape[:-2], by_token.shape[-2] * by_token.shape[-1]))


def check_heads(h: Any, width: int, name: str) -> int:
    """Return h; raise unless it is a whole number of at least 1 that divides the width."""
    h = check_whole("h", h, least=1)
    if width % h:
        raise ValueError(f"{name} = {width} is not divisible by h = {h}: every head takes {name} / h components.")
    return h


def repeat_heads(K: Float[Any, "B h_kv N d_h"], h: int) -> Float[Any, "B {h} N d_h"]:
    r"""Give each of h query heads its keys (or values): head a reads those of head a * h_kv // h.

    .. math:: (0, \ldots, h_{kv} - 1) \to (0, 0, 1, 1, \ldots), \quad \text{each } h / h_{kv} \text{ times}

    Parameters
    ----------
    K : array, shape (B, h_kv, N, d_h)
    h : int
        Number of query heads; h_kv divides it.

    Returns
    -------
    array, shape (B, h, N, d_h)

    References
    ----------
    Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023, section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> repeat_heads(np.array([1.0, 2.0]).reshape(1, 2, 1, 1), 6).ravel()
    array([1., 1., 1., 2., 2., 2.])
    """
    h_kv = K.shape[1]
    return K if h_kv == h else namespace(K=K).repeat(K, h // h_kv, axis=1)


def check_kv_heads(h_kv: Any, h: Any) -> int:
    """Return h_kv, or h where it is None; raise unless it is a whole number of at least 1 that divides h."""
    h = check_whole("h", h, least=1)
    h_kv = h if h_kv is None else check_whole("h_kv", h_kv, least=1)
    if h % h_kv:
        raise ValueError(
            f"h = {h} is not divisible by h_kv = {h_kv}: every head of keys and values serves h / h_kv query heads."
        )
    return h_kv


@dataclass(frozen=True, eq=False, repr=False)
class MultiHeadWeights:
    """The matrices of one multi-head attention; those of head a are columns a*d_h to (a+1)*d_h.

    Parameters
    ----------
    W_Q : array, shape (d_model, h * d_h)
    W_K : array, shape (d_context, h_kv * d_h)
    W_V : array, shape (d_context, h_kv * d_v)
        d_context is the width of the tokens that are read; in self-attention it is d_model.
    W_O : array, shape (h * d_v, d_model)
    h : int
        Number of heads.
    b_Q, b_K, b_V, b_O : array, optional
        One bias for each matrix, as long as it has columns.
    h_kv : int, optional
        Number of heads of keys and values; divides h. Each serves h / h_kv query heads (grouped-query attention;
        multi-query attention has 1). As many as query heads unless given.

    Raises
    ------
    TypeError, ValueError
        Shapes do not fit, a width is not divisible by h, h not by h_kv, or dtypes or libraries differ.

    Examples
    --------
    >>> MultiHeadWeights.random(12, 3, seed=0)
    MultiHeadWeights(h=3, W_Q [12, 12], W_K [12, 12], W_V [12, 12], W_O [12, 12])
    """

    W_Q: Any
    W_K: Any
    W_V: Any
    W_O: Any
    h: int
    b_Q: Any = None
    b_K: Any = None
    b_V: Any = None
    b_O: Any = None
    h_kv: Any = None

    def __post_init__(self):
        h_kv = check_kv_heads(self.h_kv, self.h)
        object.__setattr__(self, "h_kv", h_kv)  # how a frozen dataclass fills a field in
        floating_namespace(**self.arrays())
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            W, b = getattr(self, name), getattr(self, name.replace("W", "b"))
            check_axes(name, W, "d_in d_out", exactly=True)
            if b is not None and tuple(b.shape) != (W.shape[1],):
                raise ValueError(
                    f"{name.replace('W', 'b')} has shape {shape_of(b)}, but must be [{W.shape[1]}], "
                    f"as {name} has columns."
                )
        groups = self.h // h_kv  # query heads that share keys and values
        times = "" if groups == 1 else f", each {groups} times"
        check_same("h * d_h (columns)", W_Q=self.W_Q.shape[1], **{f"W_K{times}": groups * self.W_K.shape[1]})
        check_same("d_context (rows)", W_K=self.W_K.shape[0], W_V=self.W_V.shape[0])
        if self.W_O.shape[0] != groups * self.W_V.shape[1]:
            raise ValueError(
                f"W_O has {self.W_O.shape[0]} rows, but the concatenated heads have {groups * self.W_V.shape[1]} "
                f"components, as W_V has columns{times}."
            )
        check_heads(self.h, self.W_Q.shape[1], "the width of W_Q")
        check_heads(self.h, groups * self.W_V.shape[1], "the width of W_V")

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {shape_of(x)}" for name, x in self.arrays().items())
        groups = "" if self.h_kv == self.h else f"h_kv={self.h_kv}, "
        return f"MultiHeadWeights(h={self.h}, {groups}{shapes})"

    def arrays(self) -> dict[str, Any]:
        """Return the matrices and those biases that there are, by name."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("h", "h_kv")}
        return {name: x for name, x in arrays.items() if name.startswith("W") or x is not None}

    @classmethod
    def random(cls, d_model: int, h: int, *, seed: int, h_kv: int | None = None) -> "MultiHeadWeights":
        """Return NumPy float64 weights without biases, normal with variance 1/d_model, drawn from `seed`.

        With that variance a projection keeps the size of a token vector's components.
        """
        d_model = check_whole("d_model", d_model, least=1)
        d_h = d_model // check_heads(h, d_model, "d_model")
        d_kv = d_h * check_kv_heads(h_kv, h)
        rng = np.random.default_rng(check_whole("seed", seed, least=0))
        widths = (d_model, d_kv, d_kv, d_model)
        return cls(*(rng.normal(0, d_model**-0.5, (d_model, width)) for width in widths), h, h_kv=h_kv)

    @classmethod
    def from_torch(cls, module: Any) -> "MultiHeadWeights":
        """Return the weights of an ``nn.MultiheadAttention``.

        The matrices are views of the module's own parameters (transposed: torch stores [out, in]), so
        gradients reach them and later training shows.

        Raises
        ------
        TypeError
            Not an ``nn.MultiheadAttention``.
        ValueError
            The module has what this book's formula does not: bias_k and bias_v, add_zero_attn, or keys and
            values of different widths.
        """
        import torch

        if not isinstance(module, torch.nn.MultiheadAttention):
            raise TypeError(f"from_torch takes a torch.nn.MultiheadAttention, not {type(module).__name__}.")
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError("The module adds a key of its own (add_bias_kv or add_zero_attn); this formula has none.")
        if module.kdim != module.vdim:
            raise ValueError(
                f"The module has kdim = {module.kdim} and vdim = {module.vdim}; "
                "here keys and values come from one context."
            )
        d = module.embed_dim
        with torch.enable_grad():  # a view made under no_grad would cut the gradient off silently
            if module.in_proj_weight is None:
                W_in = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
            else:
                W_in = thirds(module.in_proj_weight, d)
            b_in = (None,) * 3 if module.in_proj_bias is None else thirds(module.in_proj_bias, d)
            W_Q, W_K, W_V = (W.T for W in W_in)
            return cls(W_Q, W_K, W_V, module.out_proj.weight.T, module.num_heads, *b_in, module.out_proj.bias)

    def to_torch(self) -> Any:
        """Return a new ``nn.MultiheadAttention`` that computes the same: the way back from `from_torch`.

        It holds copies, and expects tokens as [B, N, d_model] (``batch_first=True``). Where some biases are absent,
        it has zeros.

        Raises
        ------
        ValueError
            The heads together are not as wide as a token. torch has no such module.
        """
        import torch

        d_model, d_context = self.W_O.shape[1], self.W_K.shape[0]
        widths = {name: W.shape[1] for name, W in (("W_Q", self.W_Q), ("W_K", self.W_K), ("W_V", self.W_V))}
        if {self.W_Q.shape[0], *widths.values()} != {d_model}:
            columns = ", ".join(f"{name} {width}" for name, width in widths.items())
            raise ValueError(
                f"nn.MultiheadAttention needs heads that are together as wide as a token, d_model = {d_model}; "
                f"columns here: {columns}."
            )
        given = {name: torch.as_tensor(x).detach() for name, x in self.arrays().items()}
        biases = len(given) > 4
        module = torch.nn.MultiheadAttention(
            d_model,
            self.h,
            bias=biases,
            kdim=d_context,
            vdim=d_context,
            batch_first=True,
            device=given["W_Q"].device,
            dtype=given["W_Q"].dtype,
        )
        W_in = [given[name].T for name in widths]
        state = {"out_proj.weight": given["W_O"].T}
        if module.in_proj_weight is None:  # a context of another width: torch keeps three matrices
            state |= dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), W_in, strict=True))
        else:
            state["in_proj_weight"] = torch.cat(W_in)
        if biases:
            b_Q, b_K, b_V, b_O = (given.get(name, W_in[0].new_zeros(d_model)) for name in ("b_Q", "b_K", "b_V", "b_O"))
            state |= {"in_proj_bias": torch.cat([b_Q, b_K, b_V]), "out_proj.bias": b_O}
        module.load_state_dict(state)
        return module


def thirds(packed: Any, d: int) -> tuple[Any, Any, Any]:
    """Return the blocks for Q, K and V, of d rows each, that torch packs into one parameter.

    They are slices: views from ``.chunk(3)`` may not be used any more once an optimizer has changed the parameter.
    """
    return packed[:d], packed[d : 2 * d], packed[2 * d :]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionTrace:
    """Every intermediate of one multi-head attention, in the order of the pipeline.

    Attributes
    ----------
    X : array, shape (B, N_q, d_model)
        The tokens that read.
    Q, K, V : array, shapes (B, h, N_q, d_h), (B, h_kv, N_k, d_h), (B, h_kv, N_k, d_v)
        With h_kv < h each head of K and V serves several of Q.
    S, S_masked, A : array, shape (B, h, N_q, N_k)
        Scores before and after bias and mask, and weights, for each head.
    H : array, shape (B, h, N_q, d_v)
        Each head's output.
    concat : array, shape (B, N_q, h * d_v)
    output : array, shape (B, N_q, d_model)
    """

    X: Any
    Q: Any
    K: Any
    V: Any
    S: Any
    S_masked: Any
    A: Any
    H: Any
    concat: Any
    output: Any

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each intermediate, by name, in the order of the pipeline."""
        return {f.name: tuple(getattr(self, f.name).shape) for f in fields(self)}

    def __repr__(self) -> str:
        return f"AttentionTrace({', '.join(f'{name} {list(shape)}' for name, shape in self.shapes().items())})"


def multi_head_attention(
    X: Float[Any, "B N_q d_model"],
    weights: MultiHeadWeights,
    *,
    context: Float[Any, "B N_k d_context"] | None = None,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> AttentionTrace:
    r"""Let every token read others through h heads at once, and mix what the heads found.

    .. math::

        H_a = \mathrm{Attention}(Q_a, K_a, V_a), \qquad
        \mathrm{MHA}(X) = \mathrm{Concat}(H_1, \ldots, H_h)\, W^O

    Parameters
    ----------
    X : array, shape (B, N_q, d_model)
        The tokens that read.
    weights : MultiHeadWeights
    context : array, shape (B, N_k, d_context), optional
        The tokens that are read (cross-attention). Without it X reads itself (self-attention).
    mask : boolean array, optional
        True means "may be read". Shape (N_q, N_k), the same for all; (B, N_q, N_k) or (B, 1, N_k), one for each
        sentence and the same for its heads; or (B, h, N_q, N_k). A length of 1 is repeated.
    bias : array, optional
        Added to the scores before the mask; the same shapes as `mask`.
    scale : float, optional
        What the dot products are multiplied by; 1/sqrt(d_h) unless given.

    Returns
    -------
    AttentionTrace
        Every intermediate; ``.output`` has the shape of X.

    Raises
    ------
    TypeError, ValueError
        A dtype or library differs, or an axis disagrees; the message names it.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2, 5, 12))
    >>> multi_head_attention(X, MultiHeadWeights.random(12, 3, seed=0)).shapes()["S"]
    (2, 3, 5, 5)
    """
    if not isinstance(weights, MultiHeadWeights):
        raise TypeError(
            f"weights must be MultiHeadWeights, not {type(weights).__name__}. "
            "An nn.MultiheadAttention becomes one by MultiHeadWeights.from_torch(module)."
        )
    read, its_name = (X, "X") if context is None else (context, "context")
    floating_namespace(**{"X": X, its_name: read, "W_Q": weights.W_Q})
    check_axes("X", X, "B N_q d_model", exactly=True)
    check_axes(its_name, read, "B N_k d_context", exactly=True)
    check_same("B", **{"X": X.shape[0], its_name: read.shape[0]})
    check_same("d_model", X=X.shape[2], W_Q=weights.W_Q.shape[0])
    check_same("d_context", **{its_name: read.shape[2], "W_K": weights.W_K.shape[0]})
    queries, h = X, weights.h
    if mask is not None:
        mask = check_mask(with_head_axis(mask), (X.shape[0], h, X.shape[1], read.shape[1]), like=X)
        read = drop_unread(read, read_by_any_head(mask))
        queries = read if context is None else X
    Q = split_heads(project(queries, weights.W_Q, weights.b_Q), h)
    K = split_heads(project(read, weights.W_K, weights.b_K), weights.h_kv)
    V = split_heads(project(read, weights.W_V, weights.b_V), weights.h_kv)
    S, S_masked, A, H = attention(
        Q, repeat_heads(K, h), repeat_heads(V, h), mask=mask, bias=with_head_axis(bias), scale=scale
    )
    concat = concat_heads(H)
    return AttentionTrace(X, Q, K, V, S, S_masked, A, H, concat, project(concat, weights.W_O, weights.b_O))


def with_head_axis(mask: Any) -> Any:
    """Return a mask or bias for each sentence, [B, N_q, N_k], as [B, 1, N_q, N_k]; anything else as it is."""
    return mask[:, None] if getattr(mask, "ndim", None) == 3 else mask


def read_by_any_head(mask: Any) -> Any:
    """Return a mask of four axes with its heads merged; one of two axes as it is."""
    return namespace(mask=mask).any(mask, axis=1) if mask.ndim == 4 else mask

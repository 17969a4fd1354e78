"""Chapter 7: what stands around attention. Norm, feed-forward network, residual stream, and a stack of layers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np
from jaxtyping import Float

from attnlib._arrays import check_axes, check_same, check_whole, floating_namespace, narrow, shape_of, widen
from attnlib.multi_head import AttentionTrace, MultiHeadWeights, multi_head_attention
from attnlib.single_head import project


def layer_norm(
    X: Float[Any, "*b d_model"],
    gain: Float[Any, " d_model"] | None = None,
    shift: Float[Any, " d_model"] | None = None,
    *,
    eps: float = 1e-5,
) -> Float[Any, "*b d_model"]:
    r"""Give each token vector mean 0 and variance 1, then stretch and shift its components.

    .. math:: \mathrm{LN}(x) = g \odot \frac{x - \bar x}{\sqrt{\operatorname{Var}(x) + \epsilon}} + s

    Parameters
    ----------
    X : array, shape (..., d_model)
        Mean and variance are those of the last axis: each token for itself.
    gain, shift : array, shape (d_model,), optional
        Learned; 1 and 0 unless given.
    eps : float
        Keeps a constant vector from dividing by 0.

    Returns
    -------
    array, shape (..., d_model)

    Raises
    ------
    ValueError
        gain or shift is not as long as a token vector.

    References
    ----------
    Ba, Kiros, Hinton, "Layer Normalization", 2016, equations 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.array([1.0, 2.0, 3.0]), eps=0).round(4)
    array([-1.2247,  0.    ,  1.2247])
    """
    learned = {name: x for name, x in (("gain", gain), ("shift", shift)) if x is not None}
    xp = floating_namespace(X=X, **learned)
    check_axes("X", X, "d_model")
    for name, x in learned.items():
        check_axes(name, x, "d_model", exactly=True)
        check_same("d_model", X=X.shape[-1], **{name: x.shape[0]})
    wide = widen(X)
    centred = wide - xp.mean(wide, axis=-1, keepdims=True)
    normed = centred / xp.sqrt(xp.mean(centred**2, axis=-1, keepdims=True) + eps)
    if gain is not None:
        normed = normed * widen(gain)
    if shift is not None:
        normed = normed + widen(shift)
    return narrow(normed, X.dtype)


def relu(X: Float[Any, "*b"]) -> Float[Any, "*b"]:
    r"""Keep what is positive, replace the rest by 0: :math:`\max(x, 0)`.

    Examples
    --------
    >>> import numpy as np
    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    xp = floating_namespace(X=X)
    return xp.where(X > 0, X, xp.zeros_like(X))


def gelu(X: Float[Any, "*b"]) -> Float[Any, "*b"]:
    r"""Weigh each number by the probability that a standard normal number is smaller.

    .. math:: \mathrm{gelu}(x) = \tfrac{x}{2}\left(1 + \operatorname{erf}\frac{x}{\sqrt 2}\right)

    Notes
    -----
    This is the exact form. Some models use an approximation by tanh, which differs by up to 5e-4.

    References
    ----------
    Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    floating_namespace(X=X)
    if X.dtype == np.float32:  # in NumPy alone: torch has a dtype of its own
        return _gelu_single(X)
    wide = widen(X)
    return narrow(wide * (0.5 * (1 + _erf(wide * math.sqrt(0.5)))), X.dtype)


def _erf(x: Any) -> Any:
    """The error function, which NumPy and the array standard lack: torch has it, and for NumPy SciPy."""
    if compat.is_torch_array(x):
        return x.erf()
    from scipy.special import erf  # here, since SciPy takes longer to import than all of attnlib

    return erf(x)


_TAIL = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _gelu_single(X: Any) -> Any:
    """Return gelu of float32 in NumPy, to its precision, in a sixth of the time that SciPy's erf takes.

    What erf lacks to 1 is a polynomial times a normal density (Abramowitz and Stegun, "Handbook of Mathematical
    Functions", 1964, formula 7.1.26: off by at most 1.5e-7). Half of it times |x| is what gelu(x) lacks to relu(x).
    """
    size = np.minimum(np.abs(X), 20)  # beyond, nothing is lacking, and inf times 0 would be NaN
    t = size * (0.3275911 * math.sqrt(0.5))
    t += 1
    t = 1 / t
    lack = t * _TAIL[4]
    for coefficient in _TAIL[3::-1]:
        lack += coefficient
        lack *= t
    t = size * size
    t *= -0.5
    lack *= np.exp(t)
    lack *= 0.5 * size
    return np.maximum(X, 0) - lack


def feed_forward(
    X: Float[Any, "*b d_model"],
    W_1: Float[Any, "d_model d_ff"],
    b_1: Float[Any, " d_ff"] | None,
    W_2: Float[Any, "d_ff d_model"],
    b_2: Float[Any, " d_model"] | None,
    *,
    activation: Callable[[Any], Any] = gelu,
) -> Float[Any, "*b d_model"]:
    r"""Map each token vector by two matrices with a bend between them; no token reads another.

    .. math:: \mathrm{FFN}(x) = f(x W_1 + b_1)\, W_2 + b_2

    Parameters
    ----------
    X : array, shape (..., d_model)
    W_1 : array, shape (d_model, d_ff)
    b_1 : array, shape (d_ff,), or None
    W_2 : array, shape (d_ff, d_model)
    b_2 : array, shape (d_model,), or None
    activation : callable
        f: `gelu` or `relu`.

    Returns
    -------
    array, shape (..., d_model)

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, equation 2 (with relu).

    Examples
    --------
    >>> import numpy as np
    >>> feed_forward(np.array([[1.0, -2.0]]), np.eye(2), None, np.ones((2, 1)), None, activation=relu)
    array([[1.]])
    """
    return project(activation(project(X, W_1, b_1)), W_2, b_2)


@dataclass(frozen=True, eq=False, repr=False)
class LayerWeights:
    """Everything one encoder layer has learned, and how its parts are arranged.

    Parameters
    ----------
    attention : MultiHeadWeights
    gain_1, shift_1, gain_2, shift_2 : array, shape (d_model,)
        Of the norms that belong to the attention and to the feed-forward network.
    W_1 : array, shape (d_model, d_ff)
    b_1 : array, shape (d_ff,)
    W_2 : array, shape (d_ff, d_model)
    b_2 : array, shape (d_model,)
    activation : callable
        `gelu` or `relu`.
    norm_first : bool
        False: the norm comes after each residual sum ("post-norm", as in the first Transformer and BERT).
        True: before each part ("pre-norm", as in GPT-2 and most models since).
    eps : float
        Of the norms.

    Raises
    ------
    TypeError, ValueError
        Shapes, dtypes or libraries do not fit.
    """

    attention: MultiHeadWeights
    gain_1: Any
    shift_1: Any
    W_1: Any
    b_1: Any
    W_2: Any
    b_2: Any
    gain_2: Any
    shift_2: Any
    activation: Callable[[Any], Any] = gelu
    norm_first: bool = False
    eps: float = 1e-5

    def __post_init__(self):
        if not isinstance(self.attention, MultiHeadWeights):
            raise TypeError(f"attention must be MultiHeadWeights, not {type(self.attention).__name__}.")
        d_model = self.attention.W_Q.shape[0]
        check_axes("W_1", self.W_1, "d_model d_ff", exactly=True)
        d_ff = self.W_1.shape[1]
        wanted = {"W_1": (d_model, d_ff), "b_1": (d_ff,), "W_2": (d_ff, d_model), "b_2": (d_model,)}
        wanted |= dict.fromkeys(("gain_1", "shift_1", "gain_2", "shift_2"), (d_model,))
        floating_namespace(W_Q=self.attention.W_Q, **{name: getattr(self, name) for name in wanted})
        for name, shape in wanted.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(
                    f"{name} has shape {shape_of(getattr(self, name))}, but must be {list(shape)}: "
                    f"d_model = {d_model} and d_ff = {d_ff}."
                )

    def __repr__(self) -> str:
        order = "pre-norm" if self.norm_first else "post-norm"
        return f"LayerWeights({order}, d_ff={self.W_1.shape[1]}, {self.activation.__name__}, {self.attention!r})"

    @classmethod
    def random(cls, d_model: int, h: int, *, d_ff: int, seed: int, norm_first: bool = False) -> "LayerWeights":
        """Return NumPy float64 weights: matrices with variance 1/rows, gains 1, shifts and biases 0."""
        attention = MultiHeadWeights.random(d_model, h, seed=seed)
        d_ff = check_whole("d_ff", d_ff, least=1)
        rng = np.random.default_rng([seed, 1])  # another stream than that of the attention
        W_1 = rng.normal(0, d_model**-0.5, (d_model, d_ff))
        W_2 = rng.normal(0, d_ff**-0.5, (d_ff, d_model))
        one, zero = np.ones(d_model), np.zeros(d_model)
        return cls(attention, one, zero, W_1, np.zeros(d_ff), W_2, zero, one, zero, norm_first=norm_first)

    @classmethod
    def from_torch(cls, module: Any) -> "LayerWeights":
        """Return the weights of an ``nn.TransformerEncoderLayer``, as views of its own parameters.

        Raises
        ------
        TypeError
            Not an ``nn.TransformerEncoderLayer``.
        ValueError
            It has no biases, or an activation other than relu and (exact) gelu.
        """
        import torch
        from torch.nn import functional

        if not isinstance(module, torch.nn.TransformerEncoderLayer):
            raise TypeError(f"from_torch takes a torch.nn.TransformerEncoderLayer, not {type(module).__name__}.")
        activations = {functional.relu: relu, functional.gelu: gelu}
        if module.activation not in activations:
            raise ValueError(f"The module's activation is {module.activation}; here it must be relu or gelu.")
        if module.linear1.bias is None:
            raise ValueError("The module was made with bias=False; a layer of this book has biases.")
        with torch.enable_grad():  # a view made under no_grad would cut the gradient off silently
            W_1, W_2 = module.linear1.weight.T, module.linear2.weight.T
        return cls(
            attention=MultiHeadWeights.from_torch(module.self_attn),
            gain_1=module.norm1.weight,
            shift_1=module.norm1.bias,
            W_1=W_1,
            b_1=module.linear1.bias,
            W_2=W_2,
            b_2=module.linear2.bias,
            gain_2=module.norm2.weight,
            shift_2=module.norm2.bias,
            activation=activations[module.activation],
            norm_first=module.norm_first,
            eps=module.norm1.eps,
        )

    def to_torch(self) -> Any:
        """Return a new ``nn.TransformerEncoderLayer`` that computes the same, without dropout; it holds copies.

        Raises
        ------
        ValueError
            The activation is neither `relu` nor `gelu`, or the attention has no twin: see its own `to_torch`.
        """
        import torch

        names = {relu: "relu", gelu: "gelu"}
        if self.activation not in names:
            raise ValueError(f"The activation is {self.activation.__name__}; torch's layer has relu or gelu.")
        attention = self.attention.to_torch()
        layer = torch.nn.TransformerEncoderLayer(
            attention.embed_dim,
            attention.num_heads,
            self.W_1.shape[1],
            dropout=0.0,
            activation=names[self.activation],
            layer_norm_eps=self.eps,
            batch_first=True,
            norm_first=self.norm_first,
            device=attention.out_proj.weight.device,
            dtype=attention.out_proj.weight.dtype,
        )
        layer.self_attn = attention
        given = {
            "linear1": (self.W_1.T, self.b_1),
            "linear2": (self.W_2.T, self.b_2),
            "norm1": (self.gain_1, self.shift_1),
            "norm2": (self.gain_2, self.shift_2),
        }
        for name, (weight, bias) in given.items():
            part = {"weight": torch.as_tensor(weight), "bias": torch.as_tensor(bias)}
            getattr(layer, name).load_state_dict(part)
        return layer


@dataclass(frozen=True, eq=False, repr=False)
class LayerTrace:
    """What one layer did to the tokens.

    Attributes
    ----------
    X : array, shape (B, N, d_model)
        The tokens on their way in: bare in the first layer, dressed by the one before in the others.
    attention : AttentionTrace
        With pre-norm its X is the normed one.
    after_attention : array, shape (B, N, d_model)
        The residual stream between attention and feed-forward network.
    output : array, shape (B, N, d_model)
        The tokens on their way out.
    """

    X: Any
    attention: AttentionTrace
    after_attention: Any
    output: Any

    def __repr__(self) -> str:
        return f"LayerTrace(X {shape_of(self.X)}, A {shape_of(self.attention.A)}, output {shape_of(self.output)})"


def encoder_layer(X: Float[Any, "B N d_model"], weights: LayerWeights, *, mask: Any = None) -> LayerTrace:
    r"""Let tokens read each other, then think for themselves; each part adds to the residual stream.

    .. math::

        \text{post-norm:}\quad Y = \mathrm{LN}_1(X + \mathrm{MHA}(X)), \quad Z = \mathrm{LN}_2(Y + \mathrm{FFN}(Y))

        \text{pre-norm:}\quad Y = X + \mathrm{MHA}(\mathrm{LN}_1(X)), \quad Z = Y + \mathrm{FFN}(\mathrm{LN}_2(Y))

    Parameters
    ----------
    X : array, shape (B, N, d_model)
    weights : LayerWeights
    mask : boolean array, optional
        As in `multi_head_attention`. With `causal_mask` the same layer is a decoder's.

    Returns
    -------
    LayerTrace

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.1 (post-norm); Xiong et al., "On Layer
    Normalization in the Transformer Architecture", 2020 (both).

    Examples
    --------
    >>> import numpy as np
    >>> encoder_layer(np.ones((2, 5, 12)), LayerWeights.random(12, 3, d_ff=48, seed=0))
    LayerTrace(X [2, 5, 12], A [2, 3, 5, 5], output [2, 5, 12])
    """
    if not isinstance(weights, LayerWeights):
        raise TypeError(f"weights must be LayerWeights, not {type(weights).__name__}.")

    def norm_1(x):
        return layer_norm(x, weights.gain_1, weights.shift_1, eps=weights.eps)

    def norm_2(x):
        return layer_norm(x, weights.gain_2, weights.shift_2, eps=weights.eps)

    def think(x):
        return feed_forward(x, weights.W_1, weights.b_1, weights.W_2, weights.b_2, activation=weights.activation)

    if weights.norm_first:
        attention = multi_head_attention(norm_1(X), weights.attention, mask=mask)
        Y = X + attention.output
        Z = Y + think(norm_2(Y))
    else:
        attention = multi_head_attention(X, weights.attention, mask=mask)
        Y = norm_1(X + attention.output)
        Z = norm_2(Y + think(Y))
    return LayerTrace(X, attention, Y, Z)


def encode(X: Float[Any, "B N d_model"], layers: Sequence[LayerWeights], *, mask: Any = None) -> list[LayerTrace]:
    r"""Send tokens through a stack of layers: bare → dressed by layer 1 → dressed by layer 2 → …

    Parameters
    ----------
    X : array, shape (B, N, d_model)
        Bare tokens.
    layers : sequence of LayerWeights
    mask : boolean array, optional
        The same in every layer.

    Returns
    -------
    list of LayerTrace
        One for each layer; ``encode(...)[-1].output`` is the result. (A pre-norm stack is usually followed by one
        more `layer_norm`.)

    Raises
    ------
    ValueError
        There is no layer.

    Examples
    --------
    >>> import numpy as np
    >>> layers = [LayerWeights.random(12, 3, d_ff=48, seed=seed) for seed in range(2)]
    >>> len(encode(np.ones((2, 5, 12)), layers))
    2
    """
    if not layers:
        raise ValueError("layers is empty: encode needs at least one layer.")
    traces: list[LayerTrace] = []
    for weights in layers:
        traces.append(encoder_layer(traces[-1].output if traces else X, weights, mask=mask))
    return traces

"""`multi_head_attention` against torch.nn.MultiheadAttention, whose parameters `from_torch` shares."""

import numpy as np
import pytest
import torch
from support import assert_close

from attnlib import MultiHeadWeights, causal_mask, multi_head_attention, padding_mask

B, h, d_model, d_context = 2, 3, 12, 8
KINDS = {  # N_q, N_k, what the module is made with
    "self": (5, None, {}),
    "self, no bias": (5, None, {"bias": False}),
    "cross": (5, 7, {}),
    "cross, context of another width": (5, 7, {"kdim": d_context, "vdim": d_context}),
    "cross, another width, no bias": (5, 7, {"kdim": d_context, "vdim": d_context, "bias": False}),
    "tokens first": (5, 7, {"batch_first": False}),
}
every_kind = pytest.mark.parametrize(
    ("N_q", "N_k", "options"), [pytest.param(*kind, id=name) for name, kind in KINDS.items()]
)


def make(options, dtype=torch.float64):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(d_model, h, dtype=dtype, **{"batch_first": True} | options)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name:
                parameter.normal_()  # torch starts them at 0, where a forgotten one would not show
    return module


def draw(rng, N_q, N_k, options, dtype=torch.float64):
    """Return X and, for cross-attention, context."""
    X = torch.tensor(rng.normal(size=(B, N_q, d_model)), dtype=dtype)
    if N_k is None:
        return X, None
    return X, torch.tensor(rng.normal(size=(B, N_k, options.get("kdim", d_model))), dtype=dtype)


def in_torch(module, X, context, **kwargs):
    """Return (output, A) of the module with tokens on axis 1, as here."""
    read = X if context is None else context
    if not module.batch_first:
        X, read = X.transpose(0, 1), read.transpose(0, 1)
    output, A = module(X, read, read, average_attn_weights=False, **kwargs)
    return (output if module.batch_first else output.transpose(0, 1)), A


def masks(kind, N_q, N_k):
    """Return the mask for attnlib and the arguments that say the same to torch, where True means "ignore"."""
    T = np.ones((B, N_k), dtype=int)
    T[1, N_k - 2 :] = 0
    causal, padding = causal_mask(N_q, N_k), padding_mask(T, pad_id=0)
    each_head = np.random.default_rng(3).random((B, h, N_q, N_k)) < 0.6
    each_head[..., 0] = True
    return {
        "none": (None, {}),
        "causal": (causal, {"attn_mask": torch.tensor(~causal)}),
        "padding": (padding, {"key_padding_mask": torch.tensor(~padding[:, 0])}),
        "causal and padding": (
            causal & padding,
            {"attn_mask": torch.tensor(~causal), "key_padding_mask": torch.tensor(~padding[:, 0])},
        ),
        "one for each head": (each_head, {"attn_mask": torch.tensor(~each_head.reshape(B * h, N_q, N_k))}),
    }[kind]


every_mask = pytest.mark.parametrize("kind", ["none", "causal", "padding", "causal and padding", "one for each head"])


@every_mask
@every_kind
def test_output_and_weights_agree(rng, N_q, N_k, options, kind):
    module, (X, context) = make(options), draw(rng, N_q, N_k, options)
    mask, kwargs = masks(kind, N_q, N_k or N_q)
    trace = multi_head_attention(X, MultiHeadWeights.from_torch(module), context=context, mask=mask)
    output, A = in_torch(module, X, context, **kwargs)
    assert_close(trace.output, output, atol=1e-10)
    assert_close(trace.A, A, atol=1e-10)


@every_mask
@every_kind
def test_gradients_agree(rng, N_q, N_k, options, kind):
    """With respect to the tokens that read, those that are read, and every parameter of the module."""
    module, (X, context) = make(options), draw(rng, N_q, N_k, options)
    mask, kwargs = masks(kind, N_q, N_k or N_q)
    leaves = [X.requires_grad_(), *([] if context is None else [context.requires_grad_()]), *module.parameters()]
    mine = multi_head_attention(X, MultiHeadWeights.from_torch(module), context=context, mask=mask).output
    theirs, _ = in_torch(module, X, context, **kwargs)
    cotangent = torch.linspace(-1, 1, mine.numel(), dtype=mine.dtype).reshape(mine.shape)
    for x, y in zip(
        torch.autograd.grad((mine * cotangent).sum(), leaves),
        torch.autograd.grad((theirs * cotangent).sum(), leaves),
        strict=True,
    ):
        assert_close(x, y, atol=1e-10)


@every_kind
def test_float32_agrees(rng, N_q, N_k, options):
    """Within 2e-6 of the largest output."""
    module, (X, context) = make(options, torch.float32), draw(rng, N_q, N_k, options, torch.float32)
    trace = multi_head_attention(X, MultiHeadWeights.from_torch(module), context=context)
    output, _ = in_torch(module, X, context)
    assert_close(trace.output, output, atol=2e-6 * float(output.detach().abs().max()))


def test_additive_bias_agrees(rng):
    module, (X, _) = make({}), draw(rng, 5, None, {})
    bias = rng.normal(size=(B, h, 5, 5))
    trace = multi_head_attention(X, MultiHeadWeights.from_torch(module), bias=bias)
    output, _ = in_torch(module, X, None, attn_mask=torch.tensor(bias.reshape(B * h, 5, 5)))
    assert_close(trace.output, output, atol=1e-10)


def test_numpy_weights_give_the_same(rng):
    """All ten tensors of the trace."""
    module, (X, context) = make({}), draw(rng, 5, 7, {})
    shared = MultiHeadWeights.from_torch(module)
    copied = MultiHeadWeights(**{name: x.detach().numpy() for name, x in shared.arrays().items()}, h=h)
    mine = multi_head_attention(X.numpy(), copied, context=context.numpy(), mask=causal_mask(5, 7))
    theirs = multi_head_attention(X, shared, context=context, mask=causal_mask(5, 7))
    for name in mine.shapes():
        assert isinstance(getattr(mine, name), np.ndarray)
        assert_close(getattr(mine, name), getattr(theirs, name))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@every_kind
def test_training_through_attnlib_trains_the_module(rng, N_q, N_k, options, optimizer):
    """The weights, made once, see every step; and the steps are those of a twin that torch alone trains."""
    X, context = draw(rng, N_q, N_k, options)
    module, twin = make(options), make(options)
    weights = MultiHeadWeights.from_torch(module)
    before = weights.W_Q.detach().clone()

    def train(model, forward):
        steps = optimizer(model.parameters(), lr=0.01)
        for _ in range(3):
            steps.zero_grad()
            (forward() ** 2).mean().backward()
            steps.step()

    train(module, lambda: multi_head_attention(X, weights, context=context).output)
    train(twin, lambda: in_torch(twin, X, context)[0])
    assert not torch.equal(weights.W_Q, before)
    assert_close(multi_head_attention(X, weights, context=context).output, in_torch(module, X, context)[0], atol=1e-10)
    for x, y in zip(module.parameters(), twin.parameters(), strict=True):
        assert_close(x, y, atol=1e-7)  # Adam divides by the size of gradients, and so enlarges their rounding


def test_loaded_parameters_show(rng):
    module, (X, _) = make({}), draw(rng, 5, None, {})
    weights = MultiHeadWeights.from_torch(module)
    module.load_state_dict({name: 2 * x for name, x in module.state_dict().items()})
    assert_close(multi_head_attention(X, weights).output, in_torch(module, X, None)[0], atol=1e-10)


def test_gradients_reach_the_parameters_though_the_weights_were_made_under_no_grad(rng):
    module, (X, _) = make({}), draw(rng, 5, None, {})
    with torch.no_grad():
        weights = MultiHeadWeights.from_torch(module)
    multi_head_attention(X, weights).output.sum().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_frozen_parameters_get_no_gradient(rng):
    module, (X, _) = make({}).requires_grad_(False), draw(rng, 5, None, {})
    assert not multi_head_attention(X, MultiHeadWeights.from_torch(module)).output.requires_grad

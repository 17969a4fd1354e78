"""The models: embeddings, attnlib's own attention or encoder, and a linear read-out, with torch parameters."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import array_api_compat as compat
import torch
from torch import nn

from attnlib.inputs import embed, sinusoidal_positions
from attnlib.layers import LayerTrace, LayerWeights, encode, layer_norm
from attnlib.masks import causal_mask, padding_mask
from attnlib.multi_head import AttentionTrace, MultiHeadWeights, check_heads, multi_head_attention
from attnlib.single_head import scores
from attnlib.training.tasks import CopyPrevious, Induction, Lookup, Majority, MarkovChain, Reverse, Senses


class LookupModel(nn.Module):
    """One cross-attention and a linear read-out: a question token reads the list of items.

    The question is the sum of one vector for each key asked for (first and second have tables of their own);
    an item is the sum of a vector for its key and one for its value.

    Parameters
    ----------
    task : Lookup
    d_model : int
        Width of all vectors.
    h : int
        Heads. The number of parameters does not depend on it.
    d_h : int, optional
        Width of a head, d_model / h unless given.
    scale : float, optional
        What dot products are multiplied by; 1/sqrt(d_h) unless given.
    attend : callable, optional
        Another attention, ``attend(X, weights)``, right or wrong. It reads question and items as one sentence.
    seed : int
        Every parameter is drawn from it: tables with variance 1, matrices with variance 1/rows.
    """

    def __init__(
        self,
        task: Lookup,
        *,
        d_model: int = 32,
        h: int = 1,
        d_h: int | None = None,
        scale: float | None = None,
        attend: Callable | None = None,
        seed: int,
    ):
        super().__init__()
        self.h, self.scale, self.attend = check_heads(h, d_model, "d_model"), scale, attend
        width = h * (d_model // h if d_h is None else d_h)
        generator = torch.Generator().manual_seed(seed)

        def parameter(*shape: int, deviation: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator) * deviation)

        self.E_asked = parameter(task.asked, task.keys, d_model, deviation=1.0)
        self.E_key = parameter(task.keys, d_model, deviation=1.0)
        self.E_value = parameter(task.values, d_model, deviation=1.0)
        self.W_Q, self.W_K, self.W_V = (parameter(d_model, width, deviation=d_model**-0.5) for _ in range(3))
        self.W_O = parameter(width, d_model, deviation=width**-0.5)
        self.W_read = parameter(d_model, task.asked * task.values, deviation=d_model**-0.5)

    def table(self) -> torch.Tensor:
        """Return the scores of each key asked for (rows) with each key of an item (columns), without its value.

        For one head and one key asked for: what W_Q and W_K make of the tables alone, [keys, keys].
        """
        return scores(self.E_asked[0] @ self.W_Q, self.E_key @ self.W_K, scale=self.scale)

    def trace(self, asked: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> AttentionTrace:
        """Return every intermediate of the attention: one query, the items as keys."""
        order = torch.arange(asked.shape[1])
        question = self.E_asked[order, asked].sum(dim=1, keepdim=True)
        items = self.E_key[keys] + self.E_value[values]
        weights = MultiHeadWeights(self.W_Q, self.W_K, self.W_V, self.W_O, self.h)
        if self.attend is not None:
            return self.attend(torch.cat([question, items], dim=1), weights)
        return multi_head_attention(question, weights, context=items, scale=self.scale)

    def forward(self, asked: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (size, asked, values)."""
        read = self.trace(asked, keys, values).output[:, 0] @ self.W_read
        return read.unflatten(-1, (asked.shape[1], -1))


class SensesModel(nn.Module):
    """A stack of pre-norm encoder layers, one more norm, and a linear read-out at the word with two senses.

    Parameters
    ----------
    task : Senses
    d_model, h, d_ff : int
        Width of the tokens, number of heads, width of the feed-forward networks.
    layers : int
        How many there are.
    seed : int
        Every parameter is drawn from it: the table with variance 1, matrices with variance 1/rows.
    """

    def __init__(self, task: Senses, *, d_model: int = 20, h: int = 2, d_ff: int = 40, layers: int = 3, seed: int):
        super().__init__()
        self.pad_id, self.bank = task.vocabulary.pad_id, task.vocabulary.words.index(task.word)
        generator = torch.Generator().manual_seed(seed)
        double = {"generator": generator, "dtype": torch.float64}  # so that runs on two machines agree to many digits
        self.E = nn.Parameter(torch.randn(len(task.vocabulary), d_model, **double))
        self.W_read = nn.Parameter(torch.randn(d_model, 2, **double) * d_model**-0.5)
        self.X_pos = sinusoidal_positions(task.longest, d_model, like=self.E)
        seeds = torch.randint(2**31, (layers,), generator=generator).tolist()
        self.layers = [learnable(LayerWeights.random(d_model, h, d_ff=d_ff, seed=s, norm_first=True)) for s in seeds]
        self.of_layers = nn.ParameterList(x for weights in self.layers for x in arrays_of(weights).values())

    def trace(self, T: torch.Tensor) -> list[LayerTrace]:
        """Return every intermediate of every layer. Padding is masked."""
        X = embed(T, self.E) + self.X_pos[:, : T.shape[1]]
        return encode(X, self.layers, mask=padding_mask(T, self.pad_id))

    def forward(self, T: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (size, 1, 2), for the one word ("bank") of each sentence."""
        banks = self.trace(T)[-1].output[T == self.bank]
        return (layer_norm(banks) @ self.W_read)[:, None]


class SequenceModel(nn.Module):
    """Embeddings, a stack of pre-norm encoder layers, one more norm, and a linear read-out at each place.

    Parameters
    ----------
    task : Reverse, CopyPrevious, Majority, MarkovChain or Induction
        Says how many different symbols there are, and how long a sequence is.
    layers, h, d_model, d_ff : int
        How many layers there are, heads in each, width of the tokens and of the feed-forward networks.
    positions : bool
        Add a learned vector for each place.
    causal : bool
        Let each place read only itself and what comes before.
    seed : int
        Every parameter is drawn from it: tables with variance 1, matrices with variance 1/rows.
    """

    def __init__(
        self,
        task: Reverse | CopyPrevious | Majority | MarkovChain | Induction,
        *,
        layers: int = 1,
        h: int = 1,
        d_model: int = 32,
        d_ff: int = 32,
        positions: bool = True,
        causal: bool = False,
        seed: int,
    ):
        super().__init__()
        self.causal = causal
        generator = torch.Generator().manual_seed(seed)
        self.E = nn.Parameter(torch.randn(task.symbols, d_model, generator=generator))
        self.X_pos = nn.Parameter(torch.randn(task.N, d_model, generator=generator)) if positions else None
        self.W_read = nn.Parameter(torch.randn(d_model, task.symbols, generator=generator) * d_model**-0.5)
        seeds = torch.randint(2**31, (layers,), generator=generator).tolist()
        self.layers = [
            learnable(LayerWeights.random(d_model, h, d_ff=d_ff, seed=s, norm_first=True), torch.float32) for s in seeds
        ]
        self.of_layers = nn.ParameterList(x for weights in self.layers for x in arrays_of(weights).values())

    def trace(self, T: torch.Tensor) -> list[LayerTrace]:
        """Return every intermediate of every layer."""
        X = embed(T, self.E)
        if self.X_pos is not None:
            X = X + self.X_pos[: T.shape[1]]
        return encode(X, self.layers, mask=causal_mask(T.shape[1], like=X) if self.causal else None)

    def forward(self, T: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (size, N, symbols)."""
        return layer_norm(self.trace(T)[-1].output) @ self.W_read


def arrays_of(weights: LayerWeights) -> dict[str, Any]:
    """Return all that a layer has learned, by name."""
    own = {f.name: getattr(weights, f.name) for f in fields(weights)}
    return weights.attention.arrays() | {name: x for name, x in own.items() if compat.is_array_api_obj(x)}


def learnable(weights: LayerWeights, dtype: torch.dtype = torch.float64) -> LayerWeights:
    """Return the same weights as parameters of torch, none of them shared."""
    fresh = {name: nn.Parameter(torch.tensor(x, dtype=dtype)) for name, x in arrays_of(weights).items()}
    attention = replace(weights.attention, **{name: fresh.pop(name) for name in weights.attention.arrays()})
    return replace(weights, attention=attention, **fresh)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable numbers in a model."""
    return sum(p.numel() for p in model.parameters())

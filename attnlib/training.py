"""Chapters 4, 6 and 10: tiny models that learn in seconds. Their forward pass is `multi_head_attention`.

This is the one module of attnlib that imports torch.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from attnlib._arrays import check_whole
from attnlib.multi_head import AttentionTrace, MultiHeadWeights, check_heads, multi_head_attention


@dataclass(frozen=True)
class Lookup:
    """A task: in a list of (key, value) pairs, find the values of the keys that are asked for.

    Parameters
    ----------
    keys, values : int
        How many different keys and values there are.
    items : int
        Pairs in one list; their keys all differ.
    asked : int
        Keys asked for at once; the answer gives their values in the same order.
    """

    keys: int = 16
    values: int = 8
    items: int = 8
    asked: int = 1

    def __post_init__(self):
        check_whole("values", self.values, least=2)
        check_whole("asked", self.asked, least=1)
        if not self.asked <= self.items <= self.keys:
            raise ValueError(
                f"A lookup needs asked <= items <= keys, not {self.asked}, {self.items}, {self.keys}: "
                "keys differ, and what is asked for is in the list."
            )

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Return (inputs, answers): asked keys [size, asked], keys and values [size, items]; answers [size, asked]."""
        keys = torch.rand(size, self.keys, generator=generator).argsort(dim=-1)[:, : self.items]
        values = torch.randint(self.values, (size, self.items), generator=generator)
        place = torch.rand(size, self.items, generator=generator).argsort(dim=-1)[:, : self.asked]
        return (keys.gather(1, place), keys, values), values.gather(1, place)


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
        seed: int,
    ):
        super().__init__()
        self.h, self.scale = check_heads(h, d_model, "d_model"), scale
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

    def trace(self, asked: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> AttentionTrace:
        """Return every intermediate of the attention: one query, the items as keys."""
        order = torch.arange(asked.shape[1])
        question = self.E_asked[order, asked].sum(dim=1, keepdim=True)
        items = self.E_key[keys] + self.E_value[values]
        weights = MultiHeadWeights(self.W_Q, self.W_K, self.W_V, self.W_O, self.h)
        return multi_head_attention(question, weights, context=items, scale=self.scale)

    def forward(self, asked: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (size, asked, values)."""
        read = self.trace(asked, keys, values).output[:, 0] @ self.W_read
        return read.unflatten(-1, (asked.shape[1], -1))


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable numbers in a model."""
    return sum(p.numel() for p in model.parameters())


def train(
    model: nn.Module, task: Any, *, steps: int, lr: float = 1e-2, size: int = 64, seed: int, progress: bool = False
) -> list[float]:
    """Train a model by Adam on fresh batches of a task and return the loss before each step, in nats.

    Parameters
    ----------
    model : nn.Module
        Maps the inputs of a batch to logits.
    task : object with ``batch(size, generator)``
        Returns (inputs, answers); answers are class numbers.
    steps, size, seed : int
        Steps, examples a step, and the seed of the data.
    lr : float
        Learning rate.
    progress : bool
        Show a progress bar. Off where outputs are stored.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in tqdm(range(steps), disable=not progress):
        inputs, answers = task.batch(size, generator)
        loss = cross_entropy(model(*inputs).flatten(0, -2), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, task: Any, *, size: int = 2048, seed: int) -> float:
    """Return the share of right answers on a fresh batch."""
    inputs, answers = task.batch(size, torch.Generator().manual_seed(seed))
    return (model(*inputs).argmax(dim=-1) == answers).double().mean().item()

"""Chapters 4, 6, 7 and 10: tiny models that learn in seconds. Their forward pass is attnlib's own.

This is the one module of attnlib that imports torch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from attnlib._arrays import check_whole
from attnlib.examples import OTHER_SENTENCE, SENTENCE
from attnlib.inputs import Vocabulary, embed, sinusoidal_positions
from attnlib.layers import LayerTrace, LayerWeights, encode, layer_norm
from attnlib.masks import padding_mask
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


@dataclass(frozen=True)
class Senses:
    """A task: say whether the "bank" of a sentence lies by a river (sense 0) or holds money (sense 1).

    Sentences are made up: "bank" stands anywhere, a clue to its sense stands anywhere else, and each other place
    holds one more clue to the same sense or a word that tells nothing.

    Parameters
    ----------
    shortest, longest : int
        Words in a sentence. Short ones are padded on the right to the longest.

    Attributes
    ----------
    clues : tuple of two tuples of str
        The words that tell sense 0, and those that tell sense 1.
    fillers : tuple of str
        The words that tell nothing.
    vocabulary : Vocabulary
        Padding, "bank" and all those words; the words of the running example come first, in their order there.
    """

    shortest: int = 5
    longest: int = 7

    clues: ClassVar = (("river", "steep", "water", "boat"), ("raised", "rate", "loan", "money"))
    fillers: ClassVar = ("the", "by", "was", "old", "near", "a")
    vocabulary: ClassVar = Vocabulary(
        dict.fromkeys(["[PAD]", *SENTENCE.split(), *OTHER_SENTENCE.split(), *clues[0], *clues[1], *fillers])
    )

    def __post_init__(self):
        check_whole("shortest", self.shortest, least=2)
        check_whole("longest", self.longest, least=self.shortest)

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids of the sentences [size, longest]; the sense of each "bank" [size, 1]."""
        sense = torch.randint(2, (size, 1), generator=generator)

        def draw(length: int, *more: str) -> torch.Tensor:
            """Draw words for each sentence from the clues to its sense and some more words."""
            pools = torch.from_numpy(np.stack([self.vocabulary.encode(clues + more) for clues in self.clues]))
            return pools[sense, torch.randint(pools.shape[1], (size, length), generator=generator)]

        length = torch.randint(self.shortest, self.longest + 1, (size, 1), generator=generator)
        padding = torch.arange(self.longest) >= length
        # All places in random order, padding last: the first is the bank's, the second that of a clue.
        order = (torch.rand(size, self.longest, generator=generator) + padding).argsort(dim=-1)
        T = draw(self.longest, *self.fillers).masked_fill(padding, self.vocabulary.pad_id)
        T = T.scatter(1, order[:, 1:2], draw(1))
        return (T.scatter(1, order[:, :1], self.vocabulary.words.index("bank")),), sense


class SensesModel(nn.Module):
    """A stack of pre-norm encoder layers, one more norm, and a linear read-out at the word "bank".

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
        self.pad_id, self.bank = task.vocabulary.pad_id, task.vocabulary.words.index("bank")
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
        """Return logits, shape (size, 1, 2), for the one "bank" of each sentence."""
        banks = self.trace(T)[-1].output[T == self.bank]
        return (layer_norm(banks) @ self.W_read)[:, None]


def arrays_of(weights: LayerWeights) -> dict[str, Any]:
    """Return all that a layer has learned, by name."""
    own = {f.name: getattr(weights, f.name) for f in fields(weights)}
    return weights.attention.arrays() | {name: x for name, x in own.items() if compat.is_array_api_obj(x)}


def learnable(weights: LayerWeights) -> LayerWeights:
    """Return the same weights as parameters of torch, none of them shared."""
    fresh = {name: nn.Parameter(torch.tensor(x)) for name, x in arrays_of(weights).items()}
    attention = replace(weights.attention, **{name: fresh.pop(name) for name in weights.attention.arrays()})
    return replace(weights, attention=attention, **fresh)


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
    with one_thread():
        for _ in tqdm(range(steps), disable=not progress):
            inputs, answers = task.batch(size, generator)
            loss = cross_entropy(model(*inputs).flatten(0, -2), answers.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: for models this small, threads that wait for each other cost more than they bring."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def accuracy(model: nn.Module, task: Any, *, size: int = 2048, seed: int) -> float:
    """Return the share of right answers on a fresh batch."""
    inputs, answers = task.batch(size, torch.Generator().manual_seed(seed))
    return (model(*inputs).argmax(dim=-1) == answers).double().mean().item()

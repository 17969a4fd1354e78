"""The synthetic tasks: each draws fresh batches of questions whose answers are known."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from attnlib._arrays import check_whole
from attnlib.examples import OTHER_SENTENCE, SENTENCE
from attnlib.inputs import Vocabulary

NO_ANSWER = -100  # where nothing is asked: torch's cross_entropy leaves it out


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


_CLUES = (("river", "steep", "water", "boat"), ("raised", "rate", "loan", "money"))
_FILLERS = ("the", "by", "was", "old", "near", "a")
_BANK = Vocabulary(
    dict.fromkeys(["[PAD]", *SENTENCE.split(), *OTHER_SENTENCE.split(), *_CLUES[0], *_CLUES[1], *_FILLERS])
)


@dataclass(frozen=True)
class Senses:
    """A task: say whether the "bank" of a sentence lies by a river (sense 0) or holds money (sense 1).

    Sentences are made up: "bank" stands anywhere, a clue to its sense stands anywhere else, and each other place
    holds one more clue to the same sense or a word that tells nothing. Another word with two senses, in any
    language, serves as well.

    Parameters
    ----------
    shortest, longest : int
        Words in a sentence. Short ones are padded on the right to the longest.
    word : str
        The word with two senses.
    clues : tuple of two tuples of str
        The words that tell sense 0, and those that tell sense 1.
    fillers : tuple of str
        The words that tell nothing.
    vocabulary : Vocabulary
        Padding and all those words; unless given, those of "bank", with the words of the running example first, in
        their order there.

    Raises
    ------
    KeyError, ValueError
        The vocabulary lacks one of the words, a word has two parts to play, or the lengths do not fit.

    Examples
    --------
    >>> task = Senses(word="bat", clues=(("cave",), ("ball",)), fillers=("a",),
    ...               vocabulary=Vocabulary(["[PAD]", "a", "bat", "cave", "ball"]))
    >>> (T,), sense = task.batch(2, torch.Generator().manual_seed(0))
    >>> T.shape, sense.shape
    (torch.Size([2, 7]), torch.Size([2, 1]))
    """

    shortest: int = 5
    longest: int = 7
    word: str = "bank"
    clues: tuple[tuple[str, ...], tuple[str, ...]] = _CLUES
    fillers: tuple[str, ...] = _FILLERS
    vocabulary: Vocabulary = _BANK

    def __post_init__(self):
        check_whole("shortest", self.shortest, least=2)
        check_whole("longest", self.longest, least=self.shortest)
        words = [self.word, *self.clues[0], *self.clues[1], *self.fillers]
        self.vocabulary.encode(words)
        if twice := {word for word in words if words.count(word) > 1}:
            raise ValueError(f"{min(twice)!r} stands twice among the word, its clues and the fillers.")

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids of the sentences [size, longest]; the sense of its "bank" [size, 1]."""
        sense = torch.randint(2, (size, 1), generator=generator)

        def draw(length: int, *more: str) -> torch.Tensor:
            """Draw words for each sentence from the clues to its sense and some more words."""
            pools = torch.from_numpy(np.stack([self.vocabulary.encode(clues + more) for clues in self.clues]))
            return pools[sense, torch.randint(pools.shape[1], (size, length), generator=generator)]

        length = torch.randint(self.shortest, self.longest + 1, (size, 1), generator=generator)
        padding = torch.arange(self.longest) >= length
        # All places in random order, padding last: the first is the word's, the second that of a clue.
        order = (torch.rand(size, self.longest, generator=generator) + padding).argsort(dim=-1)
        T = draw(self.longest, *self.fillers).masked_fill(padding, self.vocabulary.pad_id)
        T = T.scatter(1, order[:, 1:2], draw(1))
        return (T.scatter(1, order[:, :1], self.vocabulary.words.index(self.word)),), sense


@dataclass(frozen=True)
class Reverse:
    """A task: say the sequence backwards.

    Parameters
    ----------
    symbols, N : int
        How many different symbols there are; length of a sequence.
    """

    symbols: int = 12
    N: int = 10

    def __post_init__(self):
        check_whole("symbols", self.symbols, least=2)
        check_whole("N", self.N, least=2)

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids [size, N]; the same from the last to the first."""
        T = torch.randint(self.symbols, (size, self.N), generator=generator)
        return (T,), T.flip(1)


@dataclass(frozen=True)
class CopyPrevious:
    """A task: at each place, name the symbol that stands one place before. Nothing is asked at the first.

    Parameters
    ----------
    symbols, N : int
        How many different symbols there are; length of a sequence.
    """

    symbols: int = 12
    N: int = 10

    def __post_init__(self):
        check_whole("symbols", self.symbols, least=2)
        check_whole("N", self.N, least=2)

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids [size, N]; the same, one place to the right."""
        T = torch.randint(self.symbols, (size, self.N), generator=generator)
        return (T,), T.roll(1, dims=1).index_fill(1, torch.tensor(0), NO_ANSWER)


@dataclass(frozen=True)
class Majority:
    """A task: at each place, name the one of two symbols that the whole sequence holds more often.

    Parameters
    ----------
    N : int
        Length of a sequence, odd, so that there is always a winner.
    """

    N: int = 15
    symbols: ClassVar = 2

    def __post_init__(self):
        if check_whole("N", self.N, least=1) % 2 == 0:
            raise ValueError(f"N = {self.N} is even: both symbols could be there equally often.")

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids [size, N]; the winner, N times [size, N]."""
        T = torch.randint(2, (size, self.N), generator=generator)
        winner = (2 * T.sum(dim=1, keepdim=True) > self.N).long()
        return (T,), winner.expand(-1, self.N)


@dataclass(frozen=True)
class MarkovChain:
    """A task: guess the next symbol of a chain in which each symbol depends on the one before, and on chance.

    Parameters
    ----------
    symbols, N : int
        How many different symbols there are; length of a sequence.
    seed : int
        The probabilities are drawn from it.
    """

    symbols: int = 8
    N: int = 20
    seed: int = 0

    def __post_init__(self):
        check_whole("symbols", self.symbols, least=2)
        check_whole("N", self.N, least=1)

    @cached_property
    def P(self) -> np.ndarray:
        """Probabilities [symbols, symbols]: row i, column j tells how often j follows i. Rows sum to 1."""
        odds = np.exp(2 * np.random.default_rng(self.seed).normal(size=(self.symbols, self.symbols)))
        return odds / odds.sum(axis=1, keepdims=True)

    @cached_property
    def stationary(self) -> np.ndarray:
        """How often each symbol comes in the long run, [symbols]: the p with p P = p."""
        return np.linalg.matrix_power(self.P, 1000)[0]

    @property
    def floor(self) -> float:
        r"""The loss in nats of the best possible guess: :math:`-\sum_i p_i \sum_j P_{ij} \ln P_{ij}`."""
        return float(-(self.stationary @ (self.P * np.log(self.P)).sum(axis=1)))

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids [size, N]; the symbol that follows each [size, N]."""
        P = torch.from_numpy(self.P)
        T = [torch.from_numpy(self.stationary).multinomial(size, replacement=True, generator=generator)]
        for _ in range(self.N):
            T.append(P[T[-1]].multinomial(1, generator=generator)[:, 0])
        T = torch.stack(T, dim=1)
        return (T[:, :-1],), T[:, 1:]


@dataclass(frozen=True)
class Induction:
    """A task: a random run of symbols is repeated over and over; guess the next symbol.

    All symbols of a run differ. Nothing is asked before the first symbol has come again.

    Parameters
    ----------
    symbols : int
        How many different symbols there are.
    shortest, longest : int
        The length of a run lies between them, another one in each sequence.
    N : int
        Length of a sequence.
    """

    symbols: int = 12
    shortest: int = 4
    longest: int = 8
    N: int = 20

    def __post_init__(self):
        if not 2 <= self.shortest <= self.longest <= self.symbols:
            raise ValueError(
                f"An induction needs 2 <= shortest <= longest <= symbols, not {self.shortest}, {self.longest}, "
                f"{self.symbols}: the symbols of a run all differ."
            )
        if self.N <= self.longest:
            raise ValueError(f"N = {self.N} is too short: the longest run, {self.longest}, would never come again.")

    def batch(self, size: int, generator: torch.Generator) -> tuple[tuple[torch.Tensor], torch.Tensor]:
        """Return (inputs, answers): ids [size, N]; the symbol that follows each [size, N], where it can be known."""
        run = torch.rand(size, self.symbols, generator=generator).argsort(dim=-1)
        period = torch.randint(self.shortest, self.longest + 1, (size, 1), generator=generator)
        place = torch.arange(self.N + 1)
        T = run.gather(1, place % period)
        return (T[:, :-1],), T[:, 1:].masked_fill(place[:-1] < period, NO_ANSWER)

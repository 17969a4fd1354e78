"""Chapter 11: the sentences on which a real model is tried, written before it saw any of them."""

import csv
from importlib.resources import files
from typing import NamedTuple


class Sense(NamedTuple):
    """A sentence that holds an ambiguous word once, and what the word means there."""

    word: str
    sense: str
    sentence: str


class Pronoun(NamedTuple):
    """A sentence whose "it" stands for one of two nouns; the other sentence of its pair differs in one word."""

    pair: int
    right: str
    other: str
    sentence: str


def senses() -> list[Sense]:
    """Return 128 sentences: eight words, two senses each, eight sentences a sense, in this order.

    Examples
    --------
    >>> senses()[0]
    Sense(word='bank', sense='river', sentence='We tied the canoe to a willow on the far bank and had lunch.')
    """
    return [Sense(*row) for row in _rows("senses.tsv")]


def pronouns() -> list[Pronoun]:
    """Return 48 sentences in 24 pairs, the two of a pair one after the other.

    Examples
    --------
    >>> pronouns()[0].right, pronouns()[1].right
    ('trophy', 'box')
    """
    return [Pronoun(int(pair), *rest) for pair, *rest in _rows("pronouns.tsv")]


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a table below its remarks (#) and its heading."""
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
    table = csv.reader((line for line in lines if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
    next(table)  # the heading
    return list(table)

"""The explorer as HTML: what it stores, what stands there without a script, what it refuses."""

import json

import numpy as np
import pytest
from bs4 import BeautifulSoup

from attnlib import attention, causal_mask, example, multi_head_attention, padding_mask, project
from attnlib.explorer import DARK, DECIMALS, LIGHT, explore, labels, script
from attnlib.plots.style import TENSORS, contrast

TOKENS = ["the", "bank", "<b>'\"&"]


def parsed(explorer):
    return BeautifulSoup(explorer._repr_html_(), "html.parser")


def stored(explorer):
    return json.loads(parsed(explorer).find("attention-explorer")["data-explorer"])


def rows_of(table):
    return [[cell.text for cell in row.find_all("td")] for row in table.tbody.find_all("tr")]


@pytest.fixture
def head():
    ex = example()
    return attention(*(project(ex.X, W) for W in (ex.weights.W_Q, ex.weights.W_K, ex.weights.W_V)))


def test_scores_are_stored_with_enough_digits(head):
    """An error of e in each score moves a weight by e/2 at most; the highest scale is d_h times the usual one."""
    kept = np.array(stored(explore(head, example().tokens, d_h=12))["S"])
    assert np.abs(kept - head.S).max() <= 0.5 * 10.0**-DECIMALS
    assert 0.5 * 12 * 0.5 * 10.0**-DECIMALS < 1e-7


def test_the_books_scores_round_alike_on_every_machine(head):
    """None lies so close to the middle between two steps that another processor's last digits would show."""
    ex = example()
    for S in (head.S, multi_head_attention(ex.X, ex.weights).S):
        steps = S * 10**DECIMALS
        assert np.abs(steps - np.floor(steps) - 0.5).min() > 1e-4  # of a step: 1e-12, where the last digit is 1e-15


def test_html_is_the_same_every_time(head):
    html = [explore(head, example().tokens, d_h=12, causal=False)._repr_html_() for _ in range(2)]
    assert html[0] == html[1]
    again = explore(head.S + 1e-14, example().tokens, d_h=12, causal=False)
    assert again._repr_html_() == html[0]


def test_minus_zero_is_zero():
    assert "-0.0" not in explore(np.array([[-1e-12, 1.0]]), ["a"], keys=["b", "c"])._repr_html_()


def test_without_a_script_a_table_stands_there(head):
    ex = example()
    tables = parsed(explore(multi_head_attention(ex.X, ex.weights), ex.tokens)).find_all("table")
    A = multi_head_attention(ex.X, ex.weights).A[0]
    assert len(tables) == 3
    for a, table in enumerate(tables):
        assert table.caption.text == f"Weights A. Rows: queries. Columns: keys. Head {a}."
        assert [cell.text for cell in table.thead.find_all("th", scope="col")] == list(ex.tokens)
        assert [cell.text for cell in table.tbody.find_all("th", scope="row")] == list(ex.tokens)
        assert rows_of(table) == [[f"{weight:.2f}" for weight in row] for row in A[a]]
    assert "Head" not in parsed(explore(head, ex.tokens)).caption.text


def test_the_table_has_the_mask_that_is_on():
    S = np.zeros((3, 2))
    table = parsed(explore(S, ["a", "b", "c"], keys=["d", "e"], causal=True)).table
    assert rows_of(table) == [["0.00", "0.00"], ["1.00", "0.00"], ["0.50", "0.50"]]
    assert rows_of(parsed(explore(S, ["a", "b", "c"], keys=["d", "e"], causal=False)).table)[0] == ["0.50", "0.50"]


def test_tokens_are_text_and_never_markup():
    page = parsed(explore(np.zeros((3, 3)), TOKENS))
    assert page.b is None
    assert [cell.text for cell in page.tbody.find_all("th")] == TOKENS
    assert stored(explore(np.zeros((3, 3)), TOKENS))["queries"] == TOKENS


def test_only_what_is_asked_for_is_stored():
    assert set(stored(explore(np.zeros((2, 2)), ["a", "b"]))) == {"S", "queries", "keys", "query"}
    padding = padding_mask(np.array([[5, 0]]), 0)
    every = stored(explore(np.zeros((2, 2)), ["a", "b"], d_h=4, causal=False, padding=padding, query=1))
    assert (every["d_h"], every["causal"], every["padding"], every["query"]) == (4, False, [True, False], 1)


def test_scores_come_as_arrays_tensors_or_results():
    import torch

    ex = example()
    trace = multi_head_attention(ex.X, ex.weights)
    given = [trace, trace.S, trace.S[0], torch.from_numpy(trace.S), torch.from_numpy(trace.S).requires_grad_()]
    assert len({explore(S, ex.tokens)._repr_html_() for S in given}) == 1
    assert repr(explore(trace, ex.tokens)) == "Explorer(h=3, N_q=7, N_k=7)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"S": np.zeros((2, 1, 3, 3))}, ValueError, "choose one of its 2 sentences"),
        ({"S": np.zeros(3)}, ValueError, "needs the axes"),
        ({"S": np.where(causal_mask(3), 0, -np.inf)}, ValueError, "S and not S_masked"),
        ({"tokens": ["a", "b"]}, ValueError, "2 entries, but there are 3 queries"),
        ({"tokens": "abc"}, TypeError, "a list with one entry"),
        ({"keys": ["a"]}, ValueError, "1 entries, but there are 3 keys"),
        ({"d_h": 1}, ValueError, "at least 2"),
        ({"d_h": 2.5}, TypeError, "whole number"),
        ({"query": 3}, ValueError, "query is 3"),
        ({"query": -1}, ValueError, "at least 0"),
        ({"padding": [1, 1, 0]}, TypeError, "must be boolean"),
        ({"padding": np.ones((2, 3), dtype=bool)}, ValueError, "one entry for each of the 3 keys"),
    ],
)
def test_what_does_not_fit_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        explore(**{"S": np.zeros((3, 3)), "tokens": ["a", "b", "c"]} | arguments)


def test_the_script_is_small_and_stays_in_its_tag():
    assert len(script().encode()) < 15_500  # with its words in two languages
    assert "</" not in script() and "<!--" not in script()
    assert "http" not in script().replace("http://www.w3.org/2000/svg", "")  # a name, not an address


def test_every_language_has_every_word():
    assert {tuple(words) for words in labels().values()} == {tuple(labels()["en"])}


def test_colors_are_those_of_the_book_and_readable():
    assert all(TENSORS[name].color in script() for name in "QA")
    for colors in (LIGHT, DARK):
        assert min(contrast(colors[name], colors["paper"]) for name in ("ink", "faint")) > 4.5
        assert contrast(colors["ink"], colors["masked"]) > 4.5

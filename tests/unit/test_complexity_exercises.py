"""What the checks of chapter 8 say to attempts that are not in the catalogue."""

import math

from attnlib.exercises import check_ledger, check_longest_context
from attnlib.exercises._checking import judge
from attnlib.exercises.complexity import LEDGER, LONGEST_CONTEXT


def test_the_first_wrong_row_of_a_ledger_is_named():
    def ledger(*sizes):
        right = LEDGER.reference(*sizes)
        return [*right[:3], right[3] + 1, *right[4:]]

    assert "your count for S is not the work" in judge(LEDGER, ledger).message


def test_a_ledger_by_formulas_equals_the_counted_work():
    def ledger(B, N_q, N_k, d_model, h, d_h, d_v):
        Q, K, V = (B * N * d_model * h * d for N, d in [(N_q, d_h), (N_k, d_h), (N_k, d_v)])
        return [Q, K, V, B * h * N_q * N_k * d_h, B * h * N_q * N_k * d_v, B * N_q * h * d_v * d_model]

    assert check_ledger(ledger)


def test_a_context_that_is_no_whole_number_too_long_or_too_short_is_told_so():
    def root(budget, B, h, d_h, itemsize):
        return math.sqrt(budget / (2 * B * h * itemsize))

    assert "not a whole number" in judge(LONGEST_CONTEXT, root).message
    assert "does not fit" in judge(LONGEST_CONTEXT, lambda *sizes: int(root(*sizes)) + 2).message
    assert "one token more" in judge(LONGEST_CONTEXT, lambda *sizes: int(root(*sizes)) - 1).message
    assert check_longest_context(lambda *sizes: int(root(*sizes)))


def test_an_exact_fit_counts_as_fitting():
    exact = LONGEST_CONTEXT.cases(None)[-1]
    assert LONGEST_CONTEXT.reference(*exact) == 700

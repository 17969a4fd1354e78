"""The exercises of chapter 8: the ledger of one attention, the crossover length, and the longest context that fits."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib.complexity import crossover_length, longest_context, multiply_adds
from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check


def _ledger_cases(rng: np.random.Generator) -> list[tuple]:
    return [(2, 4, 6, 10, 3, 5, 7), (1, 3, 8, 14, 2, 4, 9), (5, 7, 3, 11, 4, 2, 6), (3, 9, 5, 8, 2, 7, 6)]


def _counted_work(B, N_q, N_k, d_model, h, d_h, d_v):
    """Run the products on arrays of these sizes, and count in each: entries of the result times terms of their sums."""
    counted = []

    def product(left, right):
        result = left @ right
        counted.append(result.size * left.shape[-1])
        return result

    def heads(x):
        return x.reshape(*x.shape[:2], h, -1).swapaxes(1, 2)

    X, C = np.zeros((B, N_q, d_model)), np.zeros((B, N_k, d_model))
    Q = heads(product(X, np.zeros((d_model, h * d_h))))
    K = heads(product(C, np.zeros((d_model, h * d_h))))
    V = heads(product(C, np.zeros((d_model, h * d_v))))
    H = product(product(Q, K.swapaxes(2, 3)), V)
    product(H.swapaxes(1, 2).reshape(B, N_q, h * d_v), np.zeros((h * d_v, d_model)))
    return counted


def _ledger_with(**changes: Any) -> Callable:
    """The right ledger of other sizes: what somebody gets who forgets one, or takes it for another."""

    def ledger(B, N_q, N_k, d_model, h, d_h, d_v):
        sizes = {"B": B, "N_q": N_q, "N_k": N_k, "d_model": d_model, "h": h, "d_h": d_h, "d_v": d_v}
        sizes |= {name: sizes.get(value, value) for name, value in changes.items()}
        return _counted_work(**sizes)

    return ledger


def _ledger_of_entries(B, N_q, N_k, d_model, h, d_h, d_v):
    pairs = B * h * N_q * N_k
    return [B * N_q * h * d_h, B * N_k * h * d_h, B * N_k * h * d_v, pairs, B * N_q * h * d_v, B * N_q * d_model]


def _ledger_of_weights(B, N_q, N_k, d_model, h, d_h, d_v):
    _, _, _, S, H, _ = _counted_work(B, N_q, N_k, d_model, h, d_h, d_v)
    return [d_model * h * d_h, d_model * h * d_h, d_model * h * d_v, S, H, h * d_v * d_model]


def _ledger_wide_heads(B, N_q, N_k, d_model, h, d_h, d_v):
    _, _, _, S, H, output = _counted_work(B, N_q, N_k, d_model, h, d_h, d_v)
    wide = d_model * h * d_model
    return [B * N_q * wide, B * N_k * wide, B * N_k * wide, S, H, output]


def _ledger_square_output(B, N_q, N_k, d_model, h, d_h, d_v):
    return [*_counted_work(B, N_q, N_k, d_model, h, d_h, d_v)[:5], B * N_q * d_model * d_model]


def _ledger_usual_widths(B, N_q, N_k, d_model, h, d_h, d_v):
    X, C, pairs = B * N_q * d_model**2, B * N_k * d_model**2, B * N_q * N_k * d_model
    return [X, C, C, pairs, pairs, X]


def _ledger_one_heads_projections(B, N_q, N_k, d_model, h, d_h, d_v):
    Q, K, V, S, H, output = _counted_work(B, N_q, N_k, d_model, h, d_h, d_v)
    return [Q // h, K // h, V // h, S, H, output]


def _ledger_same_products(B, N_q, N_k, d_model, h, d_h, d_v):
    Q, K, V, S, _, output = _counted_work(B, N_q, N_k, d_model, h, d_h, d_v)
    return [Q, K, V, S, S, output]


def _off_at(place: int) -> Callable:
    return lambda case, work: work[place] != _counted_work(*case)[place]


def _ledger_halved(B, N_q, N_k, d_model, h, d_h, d_v):
    Q, K, V, S, H, output = _counted_work(B, N_q, N_k, d_model, h, d_h, d_v)
    return [Q, K, V, S // 2, H // 2, output]


LEDGER = Exercise(
    arguments=("B", "N_q", "N_k", "d_model", "h", "d_h", "d_v"),
    reference=_counted_work,
    cases=_ledger_cases,
    own=(multiply_adds,),
    success="They equal the work counted while the products ran.",
    symptoms=tuple(
        Symptom(f"your count for {name} is not the work that was counted.", _off_at(place))
        for place, name in enumerate(("Q", "K", "V", "S", "H", "the output"))
    ),
    mistakes=(
        Mistake(
            "FLOPs instead of multiply-adds",
            "every number is twice too large. One multiplication with its addition is one multiply-add.",
            lambda *sizes: [2 * work for work in _counted_work(*sizes)],
        ),
        Mistake(
            "d_v forgotten",
            "your values are as wide as your keys. Which three steps touch values?",
            _ledger_with(d_v="d_h"),
        ),
        Mistake(
            "as many keys as queries",
            "your counts are those of self-attention. Whose rows do K and V have?",
            _ledger_with(N_k="N_q"),
        ),
        Mistake(
            "one sentence",
            "your counts do not change with B. Every sentence is computed.",
            _ledger_with(B=1),
        ),
        Mistake(
            "one head",
            "your counts are those of a single head of width d_h. How many of them run side by side?",
            _ledger_with(h=1),
        ),
        Mistake(
            "results instead of work",
            "you count the numbers that come out. Each of them is a sum: of how many products?",
            _ledger_of_entries,
        ),
        Mistake(
            "weights instead of work",
            "your projections count the entries of the matrices. Each matrix meets more than one token.",
            _ledger_of_weights,
        ),
        Mistake(
            "every head as wide as the token",
            "your heads project from d_model to d_model. To which width does one head project?",
            _ledger_wide_heads,
        ),
        Mistake(
            "the usual widths",
            "your counts hold where h heads fill d_model. Here h d_h and h d_v are given and need not.",
            _ledger_usual_widths,
        ),
        Mistake(
            "projections of one head",
            "your projections serve a single head, and your scores serve all of them.",
            _ledger_one_heads_projections,
        ),
        Mistake(
            "AV counted like QKᵀ",
            "your counts for S and H are the same. What is the width of the result of AV?",
            _ledger_same_products,
        ),
        Mistake(
            "square output matrix",
            "only your last number is off. How many rows has the matrix that takes the joined heads?",
            _ledger_square_output,
        ),
        Mistake(
            "causal half",
            "your scores and outputs are halved. No mask was asked for, and a mask alone saves no product.",
            _ledger_halved,
        ),
    ),
)


def check_ledger(fn: Any) -> CheckResult:
    """Check ``fn(B, N_q, N_k, d_model, h, d_h, d_v)``: the multiply-adds of Q, K, V, S, H and output, in this order."""
    return check(LEDGER, fn)


def _length_cases(rng: np.random.Generator) -> list[tuple]:
    return [(10, 3, 4, 5, 17), (64, 4, 12, 20, 200), (12, 5, 3, 2, 40), (96, 6, 24, 8, 128)]


def _length(linear: Callable, square: Callable = lambda h, d_h, d_v: h * (d_h + d_v)) -> Callable:
    """Both sides of the equation N * linear = N² * square, solved for N."""

    def length(d_model, h, d_h, d_v, d_ff):
        return linear(d_model, h, d_h, d_v, d_ff) / square(h, d_h, d_v)

    return length


def _all_linear(d_model, h, d_h, d_v, d_ff):
    return 2 * d_model * h * d_h + 2 * d_model * h * d_v + 2 * d_model * d_ff


CROSSOVER_LENGTH = Exercise(
    arguments=("d_model", "h", "d_h", "d_v", "d_ff"),
    reference=_length(_all_linear),
    cases=_length_cases,
    own=(crossover_length,),
    success="For heads of the usual width it is 2 d_model + d_ff.",
    mistakes=(
        Mistake(
            "AV forgotten",
            "only one of the products that grow as N² is on your side of the equation.",
            _length(_all_linear, lambda h, d_h, d_v: h * d_h),
        ),
        Mistake(
            "no feed-forward network",
            "your result does not change with d_ff.",
            _length(lambda d_model, h, d_h, d_v, d_ff: 2 * d_model * h * (d_h + d_v)),
        ),
        Mistake(
            "half a feed-forward network",
            "the feed-forward network widens each token to d_ff and brings it back: how many matrices is that?",
            _length(lambda d_model, h, d_h, d_v, d_ff: 2 * d_model * h * (d_h + d_v) + d_model * d_ff),
        ),
        Mistake(
            "output projection forgotten",
            "of the four projections you count three.",
            _length(lambda d_model, h, d_h, d_v, d_ff: d_model * h * (2 * d_h + d_v) + 2 * d_model * d_ff),
        ),
        Mistake(
            "d_v forgotten",
            "your values are as wide as your keys.",
            lambda d_model, h, d_h, d_v, d_ff: _length(_all_linear)(d_model, h, d_h, d_h, d_ff),
        ),
        Mistake(
            "the special case",
            "that holds when h heads of width d_h = d_v fill d_model. Here they need not.",
            lambda d_model, h, d_h, d_v, d_ff: 2 * d_model + d_ff,
        ),
        Mistake(
            "six times d_model",
            "that holds for d_ff = 4 d_model and heads that fill d_model. Here all five sizes are given.",
            lambda d_model, h, d_h, d_v, d_ff: 6 * d_model,
        ),
        Mistake(
            "rounded",
            "your result is a whole number. The length at which both sides are equal need not be one.",
            lambda *sizes: round(_length(_all_linear)(*sizes)),
        ),
        Mistake(
            "FLOPs against multiply-adds",
            "your length is half of the right one: one side of your equation counts twice what the other counts once.",
            _length(_all_linear, lambda h, d_h, d_v: 2 * h * (d_h + d_v)),
        ),
        Mistake(
            "heads on one side only",
            "your length is too large by the factor h. Every head multiplies QKᵀ and AV of its own.",
            _length(_all_linear, lambda h, d_h, d_v: d_h + d_v),
        ),
        Mistake(
            "upside down",
            "your length shrinks when the projections grow. Solve for N once more.",
            lambda *sizes: 1 / _length(_all_linear)(*sizes),
        ),
    ),
)


def check_crossover_length(fn: Any) -> CheckResult:
    """Check ``fn(d_model, h, d_h, d_v, d_ff)``: the N at which QKᵀ and AV cost as much as projections and FFN."""
    return check(CROSSOVER_LENGTH, fn)


def _context_cases(rng: np.random.Generator) -> list[tuple]:
    fits_exactly = 2 * 3 * 5 * 700**2 * 4
    return [(8 * 10**9, 1, 32, 128, 2), (10**9, 2, 12, 64, 4), (10**6, 4, 3, 16, 8), (fits_exactly, 3, 5, 20, 4)]


def _fits(budget, B, h, d_h, itemsize):
    return math.isqrt(budget // (2 * B * h * itemsize))


def _bytes_of(case: tuple, N: np.ndarray) -> float:
    _, B, h, _, itemsize = case
    return 2 * B * h * float(N) ** 2 * itemsize


LONGEST_CONTEXT = Exercise(
    arguments=("budget", "B", "h", "d_h", "itemsize"),
    reference=_fits,
    cases=_context_cases,
    own=(longest_context,),
    success="Twice the memory is 1.4 times the context.",
    symptoms=(
        Symptom("your result is not a whole number of tokens.", lambda case, N: float(N) % 1 != 0),
        Symptom("your result does not fit into the budget.", lambda case, N: _bytes_of(case, N) > case[0]),
        Symptom(
            "your result fits, and so does one token more.", lambda case, N: _bytes_of(case, abs(N) + 1) <= case[0]
        ),
    ),
    mistakes=(
        Mistake(
            "no square root",
            "you divide the budget as if S had one row. How do the bytes grow when N doubles?",
            lambda budget, B, h, d_h, itemsize: budget // (2 * B * h * itemsize),
        ),
        Mistake(
            "one matrix only",
            "S and A are both held.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (B * h * itemsize)),
        ),
        Mistake(
            "heads share a matrix",
            "your result does not change with h. Each head has scores of its own.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (2 * B * itemsize)),
        ),
        Mistake(
            "one sentence",
            "your result does not change with B.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (2 * h * itemsize)),
        ),
        Mistake(
            "d_h counted",
            "your result changes with d_h. How many numbers is one score?",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (2 * B * h * d_h * itemsize)),
        ),
        Mistake(
            "numbers instead of bytes",
            "your result does not change with itemsize.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (2 * B * h)),
        ),
        Mistake(
            "bits instead of bytes",
            "budget and itemsize are both in bytes already.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget // (2 * B * h * itemsize * 8)),
        ),
        Mistake(
            "rounded up",
            "half a token too many is too many.",
            lambda budget, B, h, d_h, itemsize: math.ceil(math.sqrt(budget / (2 * B * h * itemsize))),
        ),
        Mistake(
            "divided after the root",
            "you take the root of the budget first. The factors before N² belong under the root, too.",
            lambda budget, B, h, d_h, itemsize: math.isqrt(budget) // (2 * B * h * itemsize),
        ),
    ),
)


def check_longest_context(fn: Any) -> CheckResult:
    """Check ``fn(budget, B, h, d_h, itemsize)``: the largest N whose S and A fit into so many bytes."""
    return check(LONGEST_CONTEXT, fn)

"""The ledgers equal work that is counted step by step, and bytes of real arrays; the measurements measure."""

import operator
import tracemalloc
from functools import partial

import numpy as np
import pytest

from attnlib import (
    MultiHeadWeights,
    attention,
    causal_mask,
    causal_pairs,
    cpu_seconds,
    crossover_length,
    feed_forward,
    longest_context,
    multi_head_attention,
    multiply_adds,
    peak_bytes,
    project,
    published_models,
    relu,
    softmax,
    softmax_operations,
    tensor_bytes,
)

SIZES = [  # B, N_q, N_k, d_model, d_context, h, d_h, d_v
    (2, 4, 6, 10, 11, 3, 5, 7),
    (1, 3, 8, 14, 9, 2, 4, 13),
    (5, 7, 3, 11, 8, 4, 2, 6),
    (3, 1, 9, 8, 5, 1, 7, 2),
]


class Counting(np.ndarray):
    """An array that counts the multiply-adds of the matrix products in which it takes part."""

    work: list = []  # noqa: RUF012

    def __matmul__(self, other):
        result = (np.asarray(self) @ np.asarray(other)).view(Counting)
        Counting.work.append(result.size * self.shape[-1])
        return result


def counted(function, *arrays):
    Counting.work = []
    function(*(np.asarray(x).view(Counting) for x in arrays))
    return Counting.work


def random_weights(rng, d_model, d_context, h, d_h, d_v):
    shapes = [(d_model, h * d_h), (d_context, h * d_h), (d_context, h * d_v), (h * d_v, d_model)]
    return MultiHeadWeights(*(rng.normal(size=shape) for shape in shapes), h)


# --- Multiply-adds ---------------------------------------------------------------------------------------------------


def test_both_products_of_one_small_head():
    """240 FLOPs are 120 multiply-adds: 48 for QKᵀ and 72 for AV."""
    work = multiply_adds(1, 4, 2, 1, N_k=6, d_h=2, d_v=3)
    assert (work["S"], work["H"]) == (48, 72)


def test_the_small_head_by_loops():
    S = H = 0
    for _i in range(4):
        for _j in range(6):
            for _k in range(2):
                S += 1
            for _c in range(3):
                H += 1
    assert (S, H) == (48, 72)


@pytest.mark.parametrize(("B", "N_q", "N_k", "d_model", "d_context", "h", "d_h", "d_v"), SIZES)
def test_ledger_equals_the_products_of_a_real_run(rng, B, N_q, N_k, d_model, d_context, h, d_h, d_v):
    w = random_weights(rng, d_model, d_context, h, d_h, d_v)
    trace = multi_head_attention(rng.normal(size=(B, N_q, d_model)), w, context=rng.normal(size=(B, N_k, d_context)))
    K_t = np.swapaxes(trace.K, -1, -2)
    pairs = {
        "Q": (np.zeros((B, N_q, d_model)), w.W_Q),
        "K": (np.zeros((B, N_k, d_context)), w.W_K),
        "V": (np.zeros((B, N_k, d_context)), w.W_V),
        "S": (trace.Q, K_t),
        "H": (trace.A, trace.V),
        "output": (trace.concat, w.W_O),
    }
    work = {name: sum(counted(operator.matmul, *pair)) for name, pair in pairs.items()}
    ledger = multiply_adds(B, N_q, d_model, h, N_k=N_k, d_context=d_context, d_h=d_h, d_v=d_v)
    assert {name: ledger[name] for name in work} == work


def test_ledger_of_the_feed_forward_network(rng):
    X, W_1, W_2 = rng.normal(size=(2, 5, 6)), rng.normal(size=(6, 11)), rng.normal(size=(11, 6))
    work = counted(lambda X, W_1, W_2: (X @ W_1) @ W_2, X, W_1, W_2)
    assert multiply_adds(2, 5, 6, 3, d_ff=11)["FFN"] == sum(work)
    assert feed_forward(X, W_1, None, W_2, None, activation=relu).shape == X.shape


def test_heads_do_not_change_the_count():
    ledgers = [multiply_adds(2, 7, 24, h, d_ff=30) for h in (1, 2, 3, 4, 24)]
    assert all(ledger == ledgers[0] for ledger in ledgers)


def test_order_of_growth():
    """O(B h N² d_h) = O(B N² d_model): doubling N makes four times the work of S and H, twice that of the rest."""
    once, twice = multiply_adds(3, 16, 12, 4, d_ff=20), multiply_adds(3, 32, 12, 4, d_ff=20)
    ratios = {name: twice[name] / once[name] for name in once if once[name]}
    assert ratios == {"Q": 2, "K": 2, "V": 2, "S": 4, "H": 4, "output": 2, "FFN": 2}
    assert once["S"] == 3 * 16**2 * 12


def test_every_weight_is_used_once_for_each_token():
    w = MultiHeadWeights.random(12, 3, seed=0)
    ledger = multiply_adds(2, 5, 12, 3)
    assert sum(ledger[name] for name in ("Q", "K", "V", "output")) == 2 * 5 * sum(W.size for W in w.arrays().values())


def test_softmax_operations_equal_those_of_a_loop():
    B, N_q, h, N_k = 2, 3, 4, 5
    count = dict.fromkeys(("maximum", "difference", "exponential", "sum", "quotient"), 0)
    for _row in range(B * h * N_q):
        for j in range(N_k):
            count["maximum"] += j > 0
            count["difference"] += 1
            count["exponential"] += 1
            count["sum"] += j > 0
            count["quotient"] += 1
    assert softmax_operations(B, N_q, h, N_k=N_k) == count


# --- Bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("B", "N_q", "N_k", "d_model", "d_context", "h", "d_h", "d_v"), SIZES)
def test_bytes_equal_those_of_a_real_trace(rng, dtype, B, N_q, N_k, d_model, d_context, h, d_h, d_v):
    w = random_weights(rng, d_model, d_context, h, d_h, d_v)
    w = MultiHeadWeights(**{name: W.astype(dtype) for name, W in w.arrays().items()}, h=h)
    X, C = (rng.normal(size=shape).astype(dtype) for shape in [(B, N_q, d_model), (B, N_k, d_context)])
    trace = multi_head_attention(X, w, context=C, mask=causal_mask(N_q, N_k))
    ledger = tensor_bytes(B, N_q, d_model, h, itemsize=np.dtype(dtype).itemsize, N_k=N_k, d_h=d_h, d_v=d_v)
    assert ledger == {name: getattr(trace, name).nbytes for name in trace.shapes()}


def test_bytes_of_the_hidden_layer():
    hidden = project(np.ones((2, 5, 12), np.float32), np.ones((12, 48), np.float32))
    assert tensor_bytes(2, 5, 12, 3, itemsize=4, d_ff=48)["hidden"] == hidden.nbytes


def test_scores_are_as_large_as_the_tokens_at_the_width_of_a_head():
    at = tensor_bytes(1, 64, 768, 12, itemsize=4)
    assert at["S"] == at["X"]


# --- Lengths and pairs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_model", "h", "d_ff"), [(12, 3, 0), (12, 3, 48), (768, 12, 3072), (10, 2, 7)])
def test_crossover_is_where_the_ledgers_sides_are_equal(d_model, h, d_ff):
    N = crossover_length(d_model, h, d_ff=d_ff)
    assert N == 2 * d_model + d_ff
    ledger = multiply_adds(1, int(N), d_model, h, d_ff=d_ff)
    assert ledger["S"] + ledger["H"] == sum(ledger[name] for name in ("Q", "K", "V", "output", "FFN"))


def test_crossover_of_unusual_widths():
    sizes = {"d_h": 4, "d_v": 12, "d_ff": 40}
    N = crossover_length(10, 5, **sizes)
    assert N == 30
    ledger = multiply_adds(1, 30, 10, 5, **sizes)
    assert ledger["S"] + ledger["H"] == sum(ledger[name] for name in ("Q", "K", "V", "output", "FFN"))


def test_ten_pairs_of_sixteen_are_needed():
    assert causal_pairs(4) == 10
    assert causal_pairs(4) * (2 + 3) * 2 == 100  # FLOPs with d_h = 2, d_v = 3; computed are 160


@pytest.mark.parametrize("N_q", range(7))
@pytest.mark.parametrize("N_k", range(7))
@pytest.mark.parametrize("window", [None, 1, 2, 3, 9])
def test_causal_pairs_by_brute_force(N_q, N_k, window):
    pairs = 0
    for i in range(N_q):
        place = i + N_k - N_q
        pairs += sum(j <= place and (window is None or j > place - window) for j in range(N_k))
    assert causal_pairs(N_q, N_k, window=window) == pairs


@pytest.mark.parametrize(("N_q", "N_k"), [(1, 1), (4, 4), (2, 5), (1, 6), (5, 2)])
def test_causal_pairs_equal_the_mask(N_q, N_k):
    assert causal_pairs(N_q, N_k) == causal_mask(N_q, N_k).sum()


@pytest.mark.parametrize("budget", [10**6, 8 * 10**9, 2 * 3 * 5 * 700**2 * 4])
def test_longest_context_fits_and_one_token_more_does_not(budget):
    N = longest_context(budget, 5, itemsize=4, B=3, copies=2)
    held = [2 * tensor_bytes(3, n, 10, 5, itemsize=4)["S"] for n in (N, N + 1)]
    assert held[0] <= budget < held[1]


def test_published_models_have_heads_of_even_width():
    widths = {name: model.d_model / model.h for name, model in published_models().items()}
    assert widths == {"BERT-base": 64, "GPT-2 XL": 64, "Llama 2 7B": 128, "GPT-3 175B": 128}


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (partial(multiply_adds, 1, 0, 12, 3), ValueError, "N_q must be at least 1"),
        (partial(multiply_adds, 1, 5, 10, 3), ValueError, "d_model = 10 is not divisible by h = 3"),
        (partial(multiply_adds, 1, 5, 12, 3, d_v=2.5), TypeError, "d_v must be a whole number"),
        (partial(tensor_bytes, 1, 5, 12, 3, itemsize=0), ValueError, "itemsize must be at least 1"),
        (partial(softmax_operations, 1, 5, 0), ValueError, "h must be at least 1"),
        (partial(crossover_length, 10, 3), ValueError, "not divisible"),
        (partial(causal_pairs, -1), ValueError, "N_q must be at least 0"),
        (partial(causal_pairs, 3, window=0), ValueError, "window must be at least 1"),
        (partial(longest_context, 1e9, 4, itemsize=2), TypeError, "budget must be a whole number"),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_other_widths_need_no_divisible_d_model():
    assert multiply_adds(1, 5, 10, 3, d_h=4)["Q"] == 5 * 10 * 12


# --- Measuring -------------------------------------------------------------------------------------------------------


def test_a_known_array_is_measured_within_ten_percent():
    assert 8e6 <= peak_bytes(partial(np.zeros, 1_000_000)) < 8.8e6


def test_peak_counts_what_is_freed_again():
    assert peak_bytes(lambda: np.ones(10**6).sum()) >= 8e6


def test_peak_leaves_a_running_measurement_running():
    tracemalloc.start()
    try:
        held = np.zeros(10**6)
        assert peak_bytes(partial(np.zeros, 10**5)) < 1e6 < held.nbytes
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_attention_holds_about_three_score_matrices_at_once(rng):
    Q, K, V = rng.normal(size=(3, 2, 300, 8))
    S = tensor_bytes(1, 300, 16, 2, itemsize=8)["S"]
    assert 2.9 < peak_bytes(partial(attention, Q, K, V)) / S < 4
    assert 2.9 < peak_bytes(partial(softmax, np.ones((2, 300, 300)))) / S + 1 < 4


def test_more_work_takes_more_time():
    calls = {10**4: partial(sum, range(10**4)), 10**5: partial(sum, range(10**5))}
    spent = cpu_seconds(calls, rounds=3, at_least=0.005)
    assert list(spent) == [10**4, 10**5]
    assert 3 < spent[10**5] / spent[10**4] < 30

"""The benchmark of long sequences: what it calls computes the same thing, and its table is whole. No times."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from attnlib import attention, causal_mask

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "long_sequences.py"


@pytest.fixture(scope="module")
def long_sequences():
    spec = importlib.util.spec_from_file_location("long_sequences", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact(name):
    """All but linear attention give the plain result; a window that is longer than the text hides nothing."""
    return not name.startswith(("linear", "FlexAttention"))


def test_all_variants_compute_the_same(long_sequences):
    N = 100
    Q, K, V = long_sequences.inputs("numpy", N)
    expected = attention(Q, K, V, mask=causal_mask(N)).H
    for name in filter(exact, long_sequences.VARIANTS):
        library, function = long_sequences.VARIANTS[name]
        assert np.allclose(function(*long_sequences.inputs(library, N)), expected, atol=1e-5), name


def test_the_table_has_a_line_for_each_variant(long_sequences):
    peaks = {"naive, numpy": {32: 4000, 64: 16000}}
    result = long_sequences.benchmark(
        (32, 64), {32: 1, 64: 1}, (32, 64), (32,), (16, 32), flex=False, peaks=lambda names, at: peaks
    )
    lines = long_sequences.table_of(result).splitlines()
    for name, row in result["variants"].items():
        assert sum(line.startswith(name) for line in lines) == 1
        assert all(np.isfinite(list(row[kind].values())).all() for kind in ("ratio", "cpu", "wall"))
    assert result["variants"][long_sequences.REFERENCE]["ratio"] == {32: 1.0, 64: 1.0}
    assert abs(result["variants"]["naive, numpy"]["memory_exponent"] - 2) < 1e-9
    assert result["decoding"]["multiply_adds"] > 10


def test_peaks_grow_as_they_should(long_sequences):
    """Blocks of chunked attention take less than the matrix of scores, and that grows with the square of N."""
    for library in ("numpy", "torch"):
        naive = long_sequences.peaks_of(f"naive, {library}", (256, 512))
        chunked = long_sequences.peaks_of(f"chunked, {library}", (256, 512))
        assert naive[512] > 3.5 * naive[256] and naive[512] > 8 * 512 * 512 * 4
        assert chunked[512] < naive[512] / 3

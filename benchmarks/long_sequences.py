"""Speed and memory of attention over long sequences: chapter 12's variants beside PyTorch's own and the naive lines.

`python benchmarks/long_sequences.py` takes a few minutes, prints one table and writes long_sequences.json beside this
file; with --quick it takes under a minute, at short lengths, and writes nothing. float32, B = 1, h = 8, d_h = 64,
causal, one thread. In each round every variant has its turn, so that what else the machine does falls on all; a ratio
is the median of the rounds' ratios of CPU time. Peak memory comes from a fresh process for each variant: by
tracemalloc for NumPy, by the allocations that torch's profiler records for torch, both the same to the byte in every
run.
"""

import os

if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[name] = "1"  # read when NumPy and PyTorch are imported

import argparse
import functools
import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnlib import (
    KVCache,
    MultiHeadWeights,
    attention,
    causal_mask,
    chunked_attention,
    decode_step,
    linear_attention,
    multi_head_attention,
    multiply_adds,
    peak_bytes,
    sliding_window_attention,
)

H, D_H, WINDOW = 8, 64, 256
REFERENCE = "SDPA, flash path"
FLEX = "FlexAttention, compiled"
LENGTHS = (1024, 2048, 4096, 8192, 16384)
NAIVE_UP_TO = 8192  # the naive ones hold several matrices N×N for each head: 2 GB each at 8192
ROUNDS = {1024: 15, 2048: 7, 4096: 5, 8192: 3, 16384: 3}
PEAKS_AT = (2048, 4096, 8192)


def numpy_lines(Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    """Attention as one would write it down with NumPy."""
    S = Q @ K.mT / np.sqrt(np.float32(Q.shape[-1]))
    if mask is not None:
        S = np.where(mask, S, -np.inf)
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True) @ V


def torch_lines(Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    """Attention as one would write it down with torch."""
    import torch

    S = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        S = torch.where(mask, S, -torch.inf)
    return torch.softmax(S, dim=-1) @ V


def sdpa(*QKV: Any, path: str) -> Any:
    """Call PyTorch's own function, held to one of its two paths on a CPU."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, path)):
        return torch.nn.functional.scaled_dot_product_attention(*QKV, is_causal=True)


@functools.cache
def compiled_flex(N: int) -> Callable[..., Any]:
    """Return FlexAttention, compiled for causal attention over N tokens."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, N, N, device="cpu")
    return functools.partial(torch.compile(flex_attention, dynamic=False), block_mask=blocks)


def naive(*QKV: Any) -> Any:
    """Run the plain lines of NumPy or torch with a causal mask."""
    numpy = isinstance(QKV[0], np.ndarray)
    mask = causal_mask(QKV[0].shape[-2], like=QKV[0])
    return (numpy_lines if numpy else torch_lines)(*QKV, mask)


VARIANTS: dict[str, tuple[str, Callable[..., Any]]] = {  # by name: library, and what is called with Q, K, V
    REFERENCE: ("torch", functools.partial(sdpa, path="FLASH_ATTENTION")),
    "SDPA, math path": ("torch", functools.partial(sdpa, path="MATH")),
    FLEX: ("torch", lambda *QKV: compiled_flex(QKV[0].shape[-2])(*QKV)),
}
for library in ("torch", "numpy"):
    VARIANTS |= {
        f"naive, {library}": (library, naive),
        f"chunked, {library}": (library, functools.partial(chunked_attention, causal=True)),
        f"window of {WINDOW}, {library}": (library, functools.partial(sliding_window_attention, window=WINDOW)),
        f"linear, {library}": (library, functools.partial(linear_attention, causal=True)),
    }
HOLDS_S = ("SDPA, math path", "naive, torch", "naive, numpy")


def inputs(library: str, N: int) -> list[Any]:
    """Return Q, K, V of normal numbers, the same for both libraries."""
    rng = np.random.default_rng(0)
    QKV = [rng.normal(size=(1, H, N, D_H)).astype(np.float32) for _ in range(3)]
    if library == "numpy":
        return QKV
    import torch

    return [torch.from_numpy(Z) for Z in QKV]


def spent(call: Callable[[], Any], at_least: float = 0.005) -> tuple[float, float]:
    """Return the CPU and the wall seconds of one call; one that is too short for the clocks is repeated."""
    runs, cpu, wall = 0, time.process_time(), time.perf_counter()
    while True:
        call()
        runs += 1
        taken = time.process_time() - cpu
        if taken > at_least:
            return taken / runs, (time.perf_counter() - wall) / runs


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Return CPU and wall seconds, [rounds, 2], of each call. One round more comes first and does not count."""
    times = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            times[name].append(spent(call))
    return {name: np.array(pairs[1:]) for name, pairs in times.items()}


def median_ratio(times: np.ndarray, reference: np.ndarray) -> float:
    """Return the median of the rounds' ratios of CPU time."""
    return float(np.median(times[:, 0] / reference[:, 0]))


def exponent(of: Mapping[int, float]) -> float | None:
    """Fit the power of N with which a quantity grows."""
    if len(of) < 2:
        return None
    return float(np.polyfit(np.log(list(of)), np.log(list(of.values())), 1)[0])


def measure_times(names: Iterable[str], lengths: Iterable[int], rounds: Mapping[int, int]) -> dict[str, dict]:
    """Return for each variant, by N: the ratio to SDPA, and CPU and wall seconds; or why it does not run."""
    table = {name: {"library": VARIANTS[name][0], "ratio": {}, "cpu": {}, "wall": {}} for name in names}
    for N in lengths:
        calls = {}
        for name, row in table.items():
            if (N <= NAIVE_UP_TO or name not in HOLDS_S) and "note" not in row:
                call = functools.partial(VARIANTS[name][1], *inputs(row["library"], N))
                row |= why_not(call) if name == FLEX else {}
                calls |= {} if "note" in row else {name: call}
        times = interleaved(calls, rounds[N])
        for name, seconds in times.items():
            table[name]["ratio"][N] = median_ratio(seconds, times[REFERENCE])
            table[name]["cpu"][N], table[name]["wall"][N] = np.median(seconds, axis=0).tolist()
    return table


def why_not(call: Callable[[], Any]) -> dict[str, str]:
    """Try a call that not every machine can make (it needs a compiler); return a note if it fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:  # whatever a compiler says
        return {"note": f"does not run here: {type(error).__name__}"}
    return {}


def torch_peak_bytes(call: Callable[[], Any]) -> int:
    """Measure the most bytes that torch holds at one time during a call, beyond what it held before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return int(np.cumsum([0, *changes]).max())


def peaks_of(name: str, lengths: Iterable[int]) -> dict[int, int]:
    """Measure one variant's peak memory in this process; the first call, at a small N, only loads libraries."""
    library, function = VARIANTS[name]
    measure = peak_bytes if library == "numpy" else torch_peak_bytes
    function(*inputs(library, 64))
    peaks = {}
    for N in lengths:
        call = functools.partial(function, *inputs(library, N))
        if name == FLEX:
            call()  # compiles
        peaks[N] = measure(call)
    return peaks


def measure_peaks(names: Iterable[str], lengths: Iterable[int]) -> dict[str, dict]:
    """Return each variant's peak bytes by N, each variant measured in a process of its own."""
    table = {}
    for name in names:
        command = [sys.executable, __file__, "--peaks-of", name, *map(str, lengths)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
        table[name] = {int(N): peak for N, peak in json.loads(done.stdout.splitlines()[-1]).items()}
    return table


def measure_core(lengths: Iterable[int], rounds: int) -> dict[str, dict[int, float]]:
    """Return how much longer `attention` of chapter 3 takes than the same lines written directly, by N."""
    ratios = {}
    for library, lines in (("numpy", numpy_lines), ("torch", torch_lines)):
        for masked in (False, True):
            row = ratios[f"{library}, {'causal mask' if masked else 'no mask'}"] = {}
            for N in lengths:
                QKV = inputs(library, N)
                mask = causal_mask(N, like=QKV[0]) if masked else None
                calls = {
                    "lines": functools.partial(lines, *QKV, mask),
                    "attnlib": functools.partial(attention, *QKV, mask=mask),
                }
                times = interleaved(calls, rounds)
                row[N] = median_ratio(times["attnlib"], times["lines"])
    return ratios


def measure_decoding(N: int, d_model: int, rounds: int) -> dict[str, float]:
    """Return how many times more the last of N tokens costs without a cache: in multiply-adds and in CPU time."""
    weights = MultiHeadWeights.random(d_model, H, seed=0)
    X = np.random.default_rng(0).normal(size=(1, N, d_model))
    cache, mask = KVCache.for_weights(weights, B=1, N_max=N), causal_mask(N)
    decode_step(X[:, :-1], weights, cache)
    before = cache.lengths

    def last_token():
        cache.lengths = before  # the same step again
        decode_step(X[:, -1:], weights, cache)

    times = interleaved({"all": lambda: multi_head_attention(X, weights, mask=mask), "step": last_token}, rounds)
    needed = sum(multiply_adds(1, 1, d_model, H, N_k=N).values()) - 2 * (N - 1) * d_model**2  # K and V of one token
    by_count = sum(multiply_adds(1, N, d_model, H).values()) / needed
    return {"N": N, "d_model": d_model, "multiply_adds": by_count, "cpu": median_ratio(times["all"], times["step"])}


def machine() -> dict[str, Any]:
    """Describe the machine: processor, cores, versions of the libraries."""
    import torch

    info = Path("/proc/cpuinfo")
    names = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in names if line.startswith("model name")), platform.processor())
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "torch_instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "numpy": f"{np.__version__} ({blas['name']} {blas['version']})",
        "torch": torch.__version__,
    }


def benchmark(lengths, rounds, peaks_at, core_at, decoding, *, flex=True, peaks=measure_peaks) -> dict[str, Any]:
    """Measure everything; return one dictionary, as it goes to the JSON file."""
    names = [name for name in VARIANTS if flex or name != FLEX]
    table = measure_times(names, lengths, rounds)
    running = [name for name, row in table.items() if "note" not in row]
    for name, by_N in peaks(running, peaks_at).items():
        table[name]["peak_bytes"] = by_N
    for row in table.values():
        row["time_exponent"] = exponent({N: t for N, t in row["cpu"].items() if N >= max(lengths) // 8})
        row["memory_exponent"] = exponent(row.get("peak_bytes", {}))
    return {
        "setting": {"dtype": "float32", "B": 1, "h": H, "d_h": D_H, "causal": True, "window": WINDOW, "threads": 1},
        "machine": machine(),
        "variants": table,
        "core": measure_core(core_at, max(rounds.values())),
        "decoding": measure_decoding(*decoding, max(rounds.values())),
    }


def table_of(result: Mapping[str, Any]) -> str:
    """Write a result as one table."""
    lengths = sorted({N for row in result["variants"].values() for N in row["ratio"]})
    biggest = max(N for row in result["variants"].values() for N in row.get("peak_bytes", [0]))
    shown = [N for N in lengths if N in (lengths[0], *lengths[-2:])]
    at = shown[-2] if len(shown) > 1 else shown[-1]
    output = H * biggest * D_H * 4

    def cell(value, form):
        return "–" if value is None else format(value, form)

    head = [f"{'CPU time / SDPA flash, causal':30}", *(f"{f'N={N}':>8}" for N in shown)]
    head += [
        f"{f'CPU s, {at}':>12}",
        f"{'wall s':>7}",
        f"{'~N^':>5}",
        f"{f'peak MB, {biggest}':>14}",
        f"{'outputs':>8}",
    ]
    lines = ["".join([*head, f"{'~N^':>6}"])]
    for name, row in result["variants"].items():
        if "note" in row:
            lines.append(f"{name:30}  {row['note']}")
            continue
        peak = row.get("peak_bytes", {}).get(biggest)
        cells = [f"{name:30}", *(f"{cell(row['ratio'].get(N), '.3f'):>8}" for N in shown)]
        cells += [f"{cell(row['cpu'].get(at), '.3f'):>12}", f"{cell(row['wall'].get(at), '.3f'):>7}"]
        cells += [f"{cell(row['time_exponent'], '.2f'):>5}", f"{cell(peak and peak / 1e6, '.1f'):>14}"]
        cells += [f"{cell(peak and peak / output, '.1f'):>8}", f"{cell(row['memory_exponent'], '.2f'):>6}"]
        lines.append("".join(cells))
    for name, by_N in result["core"].items():
        ratios = ", ".join(f"{ratio:.2f} (N={N})" for N, ratio in by_N.items())
        lines.append(f"{f'attention / its lines, {name}':44}  {ratios}")
    d = result["decoding"]
    lines.append(
        f"{'all again / last token with a cache':44}  {d['cpu']:.0f} in CPU time, {d['multiply_adds']:.0f} in "
        f"multiply-adds (N={d['N']}, d_model={d['d_model']})"
    )
    m = result["machine"]
    lines.append(f"{m['processor']}, {m['cores']} cores, one thread; numpy {m['numpy']}, torch {m['torch']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short lengths, under a minute; writes no file")
    parser.add_argument("--peaks-of", nargs="+", metavar=("NAME", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peaks_of and VARIANTS[options.peaks_of[0]][0] == "numpy":  # that process needs no torch
        name, *lengths = options.peaks_of
        print(json.dumps(peaks_of(name, map(int, lengths))))
        return
    import torch

    torch.set_num_threads(1)
    if options.peaks_of:
        name, *lengths = options.peaks_of
        print(json.dumps(peaks_of(name, map(int, lengths))))
    elif options.quick:
        print(
            table_of(
                benchmark(
                    (256, 512, 1024), dict.fromkeys((256, 512, 1024), 3), (512, 1024), (256,), (256, 128), flex=False
                )
            )
        )
    else:
        result = benchmark(LENGTHS, ROUNDS, PEAKS_AT, (256, 512, 1024), (1024, 512))
        print(table_of(result))
        Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

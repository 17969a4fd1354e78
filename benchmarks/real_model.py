"""How long a forward pass of chapter 11's model takes: attnlib in NumPy against transformers in PyTorch.

One thread, CPU time, both measured in turn in one run; the ratio is the median of the rounds' ratios, so that what
else the machine does falls on both. Run it by `python benchmarks/real_model.py`. Needs requirements-real.txt and
requirements-dev.txt.
"""

# ruff: noqa: E402
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[name] = "1"  # read when NumPy and PyTorch are imported

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
import torch
from transformers import BertModel
from transformers.utils.logging import disable_progress_bar

from attnlib.pretrained import load, model_folder

LENGTHS, ROUNDS = (16, 64), 40


def milliseconds(run: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call, averaged over several."""
    start = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start) / times * 1000


def compare(runs: Sequence[Callable[[], object]], times: int) -> tuple[float, float, float]:
    """Return the median time of each of two runs and the median of the ratios of the first to the second."""
    for run in runs:
        milliseconds(run, 3)  # the first calls are slower
    rounds = [[milliseconds(run, times) for run in runs] for _ in range(ROUNDS)]
    first, second = zip(*rounds, strict=True)
    return median(first), median(second), median(a / b for a, b in rounds)


def main() -> None:
    torch.set_num_threads(1)
    disable_progress_bar()
    ours = load()
    theirs = BertModel.from_pretrained(model_folder(), local_files_only=True).eval()
    print(f"{'tokens':>6} {'attnlib':>10} {'transformers':>13} {'ratio':>6}")
    for N in LENGTHS:
        T = np.random.default_rng(0).integers(1000, 30000, (1, N))
        runs = [lambda T=T: ours.traces(T), lambda T=T: theirs(torch.from_numpy(T))]
        with torch.inference_mode():
            attnlib, transformers, ratio = compare(runs, times=64 // N)
        print(f"{N:>6} {attnlib:>7.1f} ms {transformers:>10.1f} ms {ratio:>6.2f}")


if __name__ == "__main__":
    main()

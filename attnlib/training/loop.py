"""The loop: fresh batches, Adam, one thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm


def train(
    model: nn.Module, task: Any, *, steps: int, lr: float = 1e-2, size: int = 64, seed: int, progress: bool = False
) -> list[float]:
    """Train a model by Adam on fresh batches of a task and return the loss before each step, in nats.

    Parameters
    ----------
    model : nn.Module
        Maps the inputs of a batch to logits.
    task : object with ``batch(size, generator)``
        Returns (inputs, answers); answers are class numbers, or `NO_ANSWER` where nothing is asked.
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

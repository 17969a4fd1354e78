"""How good a model is: the share of right answers, and the loss where the future is not there."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from attnlib.training.loop import one_thread
from attnlib.training.tasks import NO_ANSWER


@torch.no_grad()
@one_thread()
def accuracy(model: nn.Module, task: Any, *, size: int = 2048, seed: int) -> float:
    """Return the share of right answers on a fresh batch, where something is asked."""
    inputs, answers = task.batch(size, torch.Generator().manual_seed(seed))
    right = model(*inputs).argmax(dim=-1) == answers
    return right[answers != NO_ANSWER].double().mean().item()


@torch.no_grad()
@one_thread()
def prefix_loss(model: nn.Module, task: Any, *, size: int = 512, seed: int) -> float:
    """Return the loss in nats when the future is not there: at each place, the model is given what came so far.

    This is what it is given when it generates. For a causal model it is the ordinary loss.
    """
    (T,), answers = task.batch(size, torch.Generator().manual_seed(seed))
    last = [model(T[:, : n + 1])[:, n] for n in range(T.shape[1])]
    return cross_entropy(torch.cat(last), answers.T.flatten()).item()

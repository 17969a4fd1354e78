"""Chapters 4, 6, 7 and 10: tiny models that learn in seconds. Their forward pass is attnlib's own.

The one part of attnlib that imports torch.
"""

from attnlib.training.loop import one_thread, train
from attnlib.training.measure import accuracy, prefix_loss
from attnlib.training.models import LookupModel, SensesModel, SequenceModel, count_parameters
from attnlib.training.tasks import (
    NO_ANSWER,
    CopyPrevious,
    Induction,
    Lookup,
    Majority,
    MarkovChain,
    Reverse,
    Senses,
)

__all__ = [
    "NO_ANSWER",
    "CopyPrevious",
    "Induction",
    "Lookup",
    "LookupModel",
    "Majority",
    "MarkovChain",
    "Reverse",
    "Senses",
    "SensesModel",
    "SequenceModel",
    "accuracy",
    "count_parameters",
    "one_thread",
    "prefix_loss",
    "train",
]

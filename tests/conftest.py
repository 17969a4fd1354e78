"""For all tests: a seeded generator, both libraries, and floating-point faults as errors."""

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("book", derandomize=True, deadline=None, max_examples=20)
settings.load_profile("book")
os.environ.pop("ATTNLIB_LANGUAGE", None)  # the checks speak English here, whatever the author prefers


@pytest.fixture(autouse=True)
def floating_point_faults_are_errors():
    """Underflow is not one of them: softmax rounds far keys to 0, and means it."""
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20170612)  # the day "Attention Is All You Need" appeared


@pytest.fixture(scope="session", params=["numpy", "torch"])
def lib(request):
    """A test that takes `lib` runs once with each library."""
    from support import Library

    return Library(request.param)

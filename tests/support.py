"""What the tests of the numeric core share: both libraries behind one call, and one way to compare."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class Library:
    """NumPy or torch: called with a NumPy array, it returns a fresh array of that library."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, x: Any) -> Any:
        x = np.array(x)
        return torch.from_numpy(x) if self.name == "torch" else x

    def dtype(self, name: str) -> Any:
        return getattr(torch if self.name == "torch" else np, name)

    def owns(self, x: Any) -> bool:
        return isinstance(x, torch.Tensor if self.name == "torch" else np.ndarray)


def to_numpy(x: Any) -> np.ndarray:
    """Return an array of either library as NumPy; bfloat16, which NumPy lacks, as float32."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    return np.asarray(x)


def assert_close(actual: Any, desired: Any, atol: float = 1e-12) -> None:
    """Equal shapes, and equal values up to `atol`; a NaN is only equal to a NaN."""
    actual, desired = to_numpy(actual), to_numpy(desired)
    assert actual.shape == desired.shape
    np.testing.assert_allclose(actual, desired, rtol=0, atol=atol)


def gradients(function: Callable[..., torch.Tensor], *arrays: Any) -> list[torch.Tensor]:
    """Return the gradient of a fixed weighted sum of `function(*arrays)` with respect to each array."""
    leaves = [torch.as_tensor(x).detach().clone().requires_grad_() for x in arrays]
    output = function(*leaves)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    (output * weights).sum().backward()
    return [leaf.grad for leaf in leaves]

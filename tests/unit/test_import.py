"""A chapter that needs NumPy alone does not pay for torch or pyplot."""

import subprocess
import sys
from pathlib import Path

import attnlib


def modules_after(code: str) -> set[str]:
    """Return the modules that a fresh Python has loaded after `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        cwd=Path(attnlib.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    return set(run.stdout.split())


def test_importing_attnlib_imports_neither_torch_nor_matplotlib():
    loaded = modules_after("import attnlib")
    assert "attnlib.multi_head" in loaded
    assert not loaded & {"torch", "matplotlib", "array_api_compat.torch"}


def test_a_whole_run_on_numpy_arrays_imports_neither():
    code = "from attnlib import *; e = example(); multi_head_attention(e.X, e.weights, mask=causal_mask(7))"
    assert not modules_after(code) & {"torch", "matplotlib"}


def test_every_public_name_is_there():
    assert all(hasattr(attnlib, name) for name in attnlib.__all__)
    assert attnlib.__all__ == sorted(attnlib.__all__)

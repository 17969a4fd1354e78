"""Which notebooks need the weights of chapter 11, and whether they are there.

Without them (`make book REAL=0`, or nobody installed requirements-real.txt) the book is whole all the same: these
notebooks are not run, and their pages show what is stored in them.
"""

import os
from importlib.util import find_spec

from attnlib.pretrained import PACKAGE

NEED_WEIGHTS = ("book/11_real_model.ipynb", "book/solutions/11_real_model.ipynb")


def missing() -> bool:
    """Return whether those notebooks cannot be run, or shall not be."""
    return os.environ.get("REAL") == "0" or find_spec(PACKAGE) is None

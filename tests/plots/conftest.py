"""Each test of a figure starts with the book's style and ends without figures."""

import matplotlib
import pytest
from matplotlib import pyplot as plt

from attnlib.plots import use_style


@pytest.fixture(autouse=True)
def fresh_figures():
    with matplotlib.rc_context():
        use_style()
        yield
    plt.close("all")

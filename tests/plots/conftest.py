"""Each test of a figure starts with the book's style and ends without figures; one may ask for fewer fonts."""

import matplotlib
import pytest
from matplotlib import font_manager
from matplotlib import pyplot as plt

from attnlib.plots import fonts, use_style


@pytest.fixture(autouse=True)
def fresh_figures():
    with matplotlib.rc_context():
        use_style()
        yield
    plt.close("all")


@pytest.fixture
def without_chinese_font(monkeypatch):
    """A machine on which no font but attnlib's holds Chinese characters."""
    for cached in (fonts.chinese_font, fonts.has_glyph):
        cached.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(fonts, "CHINESE", ())
    with matplotlib.rc_context():
        use_style()
        yield
    for cached in (fonts.chinese_font, fonts.has_glyph):
        cached.cache_clear()

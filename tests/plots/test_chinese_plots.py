"""The book's Chinese tokens: drawn from the font that comes with attnlib, the same on every machine."""

import io

import numpy as np
import pytest
from chinese_font import FAMILY, FONT, HAN, characters
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from matplotlib import pyplot as plt

from attnlib import padding_mask
from attnlib.plots import fonts, lookup, matrix_row, notebook, show_bars, show_heads, show_matrix, use_style

TOKENS = ["她", "买", "了", "苹果", "公司", "的", "股票"]
PADDED = ["她", "买", "了", "苹果", "和", "香蕉", "[PAD]"]
RNG = np.random.default_rng(0)
SIGNED, WEIGHTS = RNG.normal(size=(7, 7)), RNG.dirichlet(np.ones(7), size=(3, 7))
IDS, TABLE = np.array([1, 2, 3, 4, 5, 6, 1]), RNG.normal(size=(7, 12))
MASK = padding_mask(np.array([[1, 2, 3, 4, 5, 6, 0]]), 0)[0]
FIGURES = {
    "lookup": lambda: lookup(IDS, TABLE, TABLE[IDS], words=[*PADDED[-1:], *PADDED[:-1]]),
    "matrix": lambda: show_matrix(SIGNED, tensor="S", rows=TOKENS),
    "row": lambda: matrix_row({"S_masked": SIGNED, "A": WEIGHTS[0]}, rows=PADDED, mask=MASK),
    "heads": lambda: show_heads(WEIGHTS, rows=PADDED, mask=MASK),
    "bars": lambda: show_bars(WEIGHTS[0, :2], rows=TOKENS[3:5], columns=TOKENS),
}


def draw(name):
    use_style()
    drawn = FIGURES[name]()
    fig = getattr(drawn, "figure", None) or drawn
    fig.canvas.draw()
    return fig


# --- The font --------------------------------------------------------------------------------------------------------


def test_the_font_holds_the_characters_that_figures_show_and_no_others():
    """If not: python tools/chinese_font.py"""
    assert "".join(sorted(map(chr, TTFont(FONT).getBestCmap()))) == characters()
    assert FONT.stat().st_size < 50_000


def test_the_font_has_a_name_of_its_own_and_its_licence_beside_it():
    font = TTFont(FONT)
    names = font["name"]
    assert {names.getDebugName(number) for number in (1, 4)} == {fonts.shipped_font()} == {FAMILY}
    named = " ".join([*(names.getDebugName(number) for number in (1, 3, 4, 6)), *font["CFF "].cff.fontNames])
    assert "Noto" not in named and "Source" not in named  # a trademark, and a name that its sister reserves
    assert "SIL Open Font License, Version 1.1" in names.getDebugName(13)
    licence = FONT.with_name("chinese-OFL.txt").read_text("utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence and "Copyright 2014-2021 Adobe" in licence
    assert FAMILY in licence and "Adobe" in names.getDebugName(0)


def test_the_shipped_font_comes_after_the_latin_one_and_before_the_machines():
    assert fonts.font_families()[:2] == ["DejaVu Sans", FAMILY]
    assert len(fonts.font_families()) == 2 + (fonts.chinese_font() is not None)


# --- On a machine without Chinese ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_tokens_are_drawn_without_a_chinese_font_of_the_machine(name, without_chinese_font, recwarn, caplog):
    fig = draw(name)
    notebook.to_svg(fig)
    labels = [text.get_text().replace("\n", "") for text in fig.findobj(plt.Text)]
    assert any("苹果" in label for label in labels) and not any("U+" in label for label in labels)
    assert not recwarn.list and not caplog.records


@pytest.mark.parametrize("name", FIGURES)
def test_the_fonts_of_the_machine_change_no_byte(name, without_chinese_font, monkeypatch):
    without = notebook.to_png(draw(name), dpi=96), notebook.to_svg(draw(name))
    monkeypatch.undo()
    fonts.chinese_font.cache_clear()
    if fonts.chinese_font() is None:
        pytest.skip("no Chinese font on this machine")
    assert len(fonts.font_families()) == 3
    assert (notebook.to_png(draw(name), dpi=96), notebook.to_svg(draw(name))) == without


def test_minus_and_latin_letters_come_from_the_usual_font(without_chinese_font):
    assert all(HAN[0] <= character <= HAN[-1] for character in map(chr, TTFont(FONT).getBestCmap()))
    svg = notebook.to_svg(draw("matrix"))
    minus, apple = (font_manager.get_font(path).get_char_index(ord(character)) for path, character in
                    ((font_manager.findfont("DejaVu Sans"), "−"), (FONT, "苹")))  # fmt: skip
    assert f'"DejaVuSans-{minus:x}"' in svg and f'"AttnlibHan-Regular-{apple:x}"' in svg
    fig, ax = plt.subplots()
    ax.plot([-2, 2], [-1, 1], label="苹果")
    ax.set_title("苹果 −1")
    fig.legend()
    fig.canvas.draw()  # a glyph that is missing would be a warning, and so an error
    assert any("\u2212" in label.get_text() for label in ax.get_xticklabels())


def test_a_character_outside_the_font_is_shown_by_its_code_point_or_from_a_font_of_the_machine(without_chinese_font):
    assert fonts.legible("苹果岸") == "苹果U+5CB8"
    fonts.CHINESE = ("DejaVu Serif",)  # the fixture restores it
    for cached in (fonts.chinese_font, fonts.has_glyph):
        cached.cache_clear()
    assert fonts.font_families() == ["DejaVu Sans", FAMILY, "DejaVu Serif"]


def test_the_shipped_font_is_listed_once_however_often_the_style_is_set():
    for _ in range(3):
        use_style()
    weights = [font.weight for font in font_manager.fontManager.ttflist if font.name == FAMILY]
    assert sorted(weights) == [400, 700]


# --- Room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_labels_do_not_overlap_and_are_not_cut(name):
    fig = draw(name)
    whole = fig.get_window_extent()
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            labels = [label for label in axis.get_ticklabels() if label.get_text() and label.get_visible()]
            boxes = [label.get_window_extent() for label in labels]
            for i, box in enumerate(boxes):
                assert box.x0 >= whole.x0 and box.x1 <= whole.x1 and box.y0 >= whole.y0 and box.y1 <= whole.y1
                assert not any(box.overlaps(other) for other in boxes[:i]), labels[i].get_text()


def test_a_matrix_keeps_room_for_wide_labels():
    """The cells of two matrices with labels as wide as one another are about as large."""
    latin, chinese = (draw_matrix(labels) for labels in (["banana"] * 7, ["苹果公"] * 7))
    assert abs(chinese / latin - 1) < 0.15


def draw_matrix(labels):
    ax = show_matrix(SIGNED, tensor="S", rows=labels, columns=TOKENS)
    ax.figure.canvas.draw()
    return ax.get_window_extent().width


def test_in_a_narrow_column_chinese_runs_downwards_and_other_labels_are_turned():
    ax = draw("row").axes[0]
    labels = [(label.get_text(), label.get_rotation()) for label in ax.get_xticklabels()]
    assert labels == [("她", 0), ("买", 0), ("了", 0), ("苹\n果", 0), ("和", 0), ("香\n蕉", 0), ("[PAD]", 90)]
    few = show_matrix(np.eye(2), tensor="A", rows=["她", "买"])
    assert [label.get_text() for label in few.get_xticklabels()] == ["她", "买"]


def test_room_is_counted_in_latin_letters():
    assert [fonts.letters(token) for token in ("the", "她", "苹果", "[PAD]", "3 苹果", "")] == [3, 2, 4, 5, 6, 0]


def test_a_picture_of_chinese_tokens_is_a_picture():
    pixels = plt.imread(io.BytesIO(notebook.to_png(draw("heads"), dpi=96)))
    assert pixels.std() > 0.05

"""Tokens in any script: a font that has their glyphs, or a readable stand-in where no font has."""

import contextlib
import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties, fontManager

BASE = "DejaVu Sans"  # ships with Matplotlib, so that a figure looks the same on every machine
SHIPPED = Path(__file__).with_name("chinese.otf")  # the Chinese characters of the book: tools/chinese_font.py
CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "Noto Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "STHeiti",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Noto Sans CJK TC",
    "Noto Sans CJK JP",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)


@cache
def shipped_font() -> str:
    """Return the family of the font that comes with attnlib, so that the book's Chinese looks the same everywhere."""
    fontManager.addfont(SHIPPED)
    shipped = fontManager.ttflist[-1]
    fontManager.ttflist.append(replace(shipped, weight=700))  # it stands in for a bold one: else Matplotlib complains
    return shipped.name


@cache
def chinese_font() -> str | None:
    """Return the first installed font family that holds Chinese characters, or None."""
    found = _first_listed()
    if found is None:
        # Matplotlib keeps a list of fonts from an earlier day: look for what was installed since.
        listed = {font.fname for font in fontManager.ttflist}
        for path in sorted(set(font_manager.findSystemFonts()) - listed):
            with contextlib.suppress(Exception):  # a font file that Matplotlib cannot read is no font for us
                fontManager.addfont(path)
        found = _first_listed()
    return found


def _first_listed() -> str | None:
    listed = {font.name for font in fontManager.ttflist}
    return next((family for family in CHINESE if family in listed), None)


def font_families() -> list[str]:
    """Return the families to draw with: DejaVu Sans, and for what it lacks the shipped font, then the machine's."""
    return [BASE, shipped_font(), *filter(None, [chinese_font()])]


@cache
def has_glyph(character: str) -> bool:
    """Say whether one of `font_families` can draw the character."""
    for family in font_families():
        path = font_manager.findfont(FontProperties(family=[family]))
        if font_manager.get_font(path).get_char_index(ord(character)):
            return True
    return False


def legible(token: str) -> str:
    """Return the token as it can be drawn: control characters as escapes, characters without a glyph as U+6CB3."""
    shown = []
    for character in str(token):
        if not character.isprintable():
            shown.append(repr(character)[1:-1])
        elif has_glyph(character):
            shown.append(character)
        else:
            shown.append(f"U+{ord(character):04X}")
    return "".join(shown)


def is_wide(text: str) -> bool:
    """Say whether all characters are as wide as they are high, as Chinese ones are."""
    return all(unicodedata.east_asian_width(character) in "WF" for character in text)


def letters(token: str) -> int:
    """Return how many Latin letters take about as much room as the token; a Chinese character takes that of two."""
    return sum(1 + is_wide(character) for character in legible(token))


def downwards(token: str) -> str:
    """Return a token for a narrow column: Chinese characters below each other, anything else in its line."""
    shown = legible(token)
    return "\n".join(shown) if is_wide(shown) else shown


def token_text() -> dict:
    """Return the text properties with which tokens are drawn: a ``$`` in a token starts no formula."""
    return {"fontfamily": font_families(), "parse_math": False}

"""In which language a check speaks: one switch, and one catalogue of messages (attnlib/locale)."""

import gettext
import os
from functools import cache
from pathlib import Path

LOCALE = Path(__file__).resolve().parents[1] / "locale"
CATALOGUES = {"en": None, "zh": "zh_CN"}  # English stands in the source
SWITCH = "ATTNLIB_LANGUAGE"


def language() -> str:
    """Return "en" or "zh": what the environment asks for, else what the notebook's folder is written in.

    Raises
    ------
    ValueError
        ATTNLIB_LANGUAGE is set to something else.
    """
    chosen = os.environ.get(SWITCH)
    if not chosen:
        return "zh" if in_chinese_book() else "en"
    if chosen not in CATALOGUES:
        raise ValueError(f"{SWITCH} is {chosen!r}, but must be one of: {', '.join(CATALOGUES)}.")
    return chosen


def in_chinese_book() -> bool:
    """Say whether the working directory, a kernel's is that of its notebook, is book/zh or book/zh/solutions.

    Nothing else counts, so that a home or a course that happens to be called zh changes nothing.
    """
    try:
        parts = Path.cwd().parts
    except FileNotFoundError:  # the folder is gone
        return False
    return parts[-2:] == ("book", "zh") or parts[-3:] == ("book", "zh", "solutions")


def _(message: str) -> str:
    """Return a message in the language of the moment; as it is where it has no translation."""
    catalogue = catalogue_of(language())
    return catalogue.gettext(message) if message else message


@cache
def catalogue_of(name: str) -> gettext.NullTranslations:
    """Return a language's catalogue. Raises if it is not there, unless English is asked for."""
    if CATALOGUES[name] is None:
        return gettext.NullTranslations()
    return gettext.translation("attnlib", LOCALE, [CATALOGUES[name]])

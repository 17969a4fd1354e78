"""Collect all that the checks of the exercises can say, for translation, and compile what is translated:

    python tools/messages.py

Run it after a message was changed, added or translated. It merges the messages of the source into
attnlib/locale/zh_CN/LC_MESSAGES/attnlib.po: translations are kept, new messages come in without one, vanished ones go
to the end as comments (`#~`). Then it writes attnlib.mo beside it, which is what Python reads. Both are committed. It
ends with an error as long as a translation is missing.
"""

import io
import sys
from pathlib import Path

import numpy as np
from babel.messages import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from attnlib.exercises import CATALOGUE
from attnlib.exercises.museum import MUSEUM

ROOT = Path(__file__).resolve().parents[1]
PO = ROOT / "attnlib/locale/zh_CN/LC_MESSAGES/attnlib.po"


def written():
    """Yield each literal that the source passes to `_`, and its file."""
    for file in sorted((ROOT / "attnlib/exercises").glob("*.py")):
        with file.open("rb") as source:
            for _line, message, _comments, _context in extract("python", source, keywords={"_": None}):
                yield message, file.stem


def held():
    """Yield each text that an exercise, the museum, or an implementation in a case holds, and the exercise."""
    for name, exercise in CATALOGUE.items():
        yield exercise.success, name
        yield from ((symptom.sentence, name) for symptom in exercise.symptoms)
        for mistake in exercise.mistakes:
            yield from ((mistake.name, name), (mistake.hint, name))
        arguments = [argument for case in exercise.cases(np.random.default_rng(0)) for argument in case]
        yield from ((argument.name, name) for argument in arguments if hasattr(argument, "name"))
    for bug in MUSEUM:
        yield from ((bug.name, "museum"), (bug.hint, "museum"))


def collect():
    """Return every message in the order of the source, with the places where it is said."""
    places = {}
    for message, place in (*written(), *held()):
        places.setdefault(message, []).append(place)
    return {message: list(dict.fromkeys(found)) for message, found in places.items()}


def merge(catalogue, messages):
    """Bring a catalogue up to date with the messages; what says the same keeps its translation."""
    template = Catalog()
    for message, places in messages.items():
        template.add(message, auto_comments=[", ".join(places)])
    catalogue.update(template, no_fuzzy_matching=True, update_creation_date=False)
    for message in catalogue:
        message.flags -= {"python-format"} if message.id else set()  # a per cent sign is one


def read(file=PO):
    with file.open("rb") as stream:
        return read_po(stream, locale="zh_CN")


def compiled(catalogue):
    """Return the bytes of a catalogue's .mo."""
    stream = io.BytesIO()
    write_mo(stream, catalogue)
    return stream.getvalue()


def main():
    catalogue = read()
    merge(catalogue, collect())
    stream = io.BytesIO()
    write_po(stream, catalogue, width=0)
    PO.write_bytes(stream.getvalue())
    PO.with_suffix(".mo").write_bytes(compiled(catalogue))
    missing = [message.id for message in catalogue if message.id and not message.string]
    print(f"{len(catalogue)} messages, {len(missing)} without a translation", *missing[:20], sep="\n  ")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())

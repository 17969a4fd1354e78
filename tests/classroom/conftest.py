import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if sys.platform == "win32":  # the kit needs limits that Windows has not
    collect_ignore_glob = ["test_*.py"]

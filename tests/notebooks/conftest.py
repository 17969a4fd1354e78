"""At the end of a run of these tests: how much of each English page stands in the Chinese edition."""

from notebooks.chinese import COUNTED, coverage
from twins import pages


def pytest_terminal_summary(terminalreporter):
    """Print counts, page by page; one number where both languages agree."""
    if not any("test_twins" in report.nodeid for report in terminalreporter.getreports("passed")):
        return
    terminalreporter.write_line("English and Chinese, page by page:")
    terminalreporter.write_line(f"{'':32}" + "".join(f"{kind:>18}" for kind in COUNTED))
    for name in pages():
        pairs = coverage(name).values()
        shown = (str(one) if one == other else f"{one}/{other}" for one, other in pairs)
        terminalreporter.write_line(f"{name:32}" + "".join(f"{text:>18}" for text in shown))

"""The docs repeat the code only where a tool wrote them, and links lead somewhere."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_generated_parts_of_the_docs_are_fresh(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables of XIDs, metrics, flags and examples are what the code says today."""
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link in a page names a file of the repository."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_row_stands_outside_of_its_table(page: Path) -> None:
    """A line of cells follows another one, or begins a table with its rule below it."""
    lines = page.read_text().splitlines()
    lost = [
        line
        for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False)
        if line.startswith("|") and not before.startswith("|") and not after.startswith("|--")
    ]
    # Commands go on with a pipe, too.
    assert [line for line in lost if line.count("|") > 1] == []

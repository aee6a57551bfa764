"""What the README and the documents say is true."""

import re
from pathlib import Path

import pytest

from app.configuration_table import table

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("cli/*.md")) if path.name != "LICENSE"
)
FOLDERS = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
PATH = re.compile(rf"`((?:{FOLDERS})/(?:[\w./*-]*[.*][\w./*-]*|[\w/-]*/))`")
"""A file with a suffix, several files, or a folder; without these it may be something else, such as a method of MCP."""
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(document.read_text()))
    return {heading.replace(" ", "-") for heading in plain}


def test_configuration_page_lists_every_variable_with_its_default() -> None:
    assert table() in (ROOT / "docs" / "configuration.md").read_text()


def test_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_documents_lead_somewhere(document: Path) -> None:
    missing = []
    for target, anchor in LINK.findall(document.read_text()):
        found = (document.parent / target) if target else document
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            missing.append(f"{target}#{anchor}")
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_that_documents_name_exist(document: Path) -> None:
    assert [path for path in PATH.findall(document.read_text()) if not list(ROOT.glob(path))] == []

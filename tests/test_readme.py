"""What the README says is true."""

import re
from pathlib import Path

from app.config import table

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_has_every_variable_with_its_present_default() -> None:
    assert table() in README.read_text()


def test_every_file_that_the_readme_links_to_is_there() -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)", README.read_text())
    assert targets
    assert [target for target in targets if not (README.parent / target).exists()] == []

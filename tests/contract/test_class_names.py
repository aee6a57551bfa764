"""One class name means one thing in the product's packages, so that a reader who searches for it finds what it is."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("services", "rules", "integrations", "models")


def places_of_classes() -> dict[str, list[str]]:
    """Return the modules that define each class."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_class_name_is_used_once() -> None:
    assert {name: places for name, places in places_of_classes().items() if len(places) > 1} == {}

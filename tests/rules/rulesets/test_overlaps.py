"""Whether two globs can name one branch, against texts that do."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.freezes.globs import compile_globs
from rules.rulesets.overlaps import overlap

TEXTS = ["".join(letters) for size in range(7) for letters in product("ab/", repeat=size)]
"""The shortest text of two globs of four atoms has six characters: three of each beside a star."""
GLOBS = st.lists(st.sampled_from(["a", "b", "/", "*", "**"]), min_size=1, max_size=4).map(
    lambda atoms: re.sub(r"\*{3,}", "**", "".join(atoms))
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("release/*", "release/*", True),
        ("release/*", "hotfix/*", False),
        ("release/*", "release/1", True),
        ("release/*", "release/1/2", False),
        ("rel**", "release/*", True),
        ("*/x", "a**", True),
        ("*/x", "a*", False),
        ("*", "a/b", False),
        ("", "*", True),
    ],
)
def test_globs_overlap_when_one_branch_matches_both(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected


@given(one=GLOBS, other=GLOBS)
def test_two_globs_overlap_exactly_when_some_text_matches_both(one: str, other: str) -> None:
    first, second = (compile_globs([pattern], "branch", "") for pattern in (one, other))
    assert overlap(one, other) == any(first.matches(text) and second.matches(text) for text in TEXTS)


def test_long_globs_are_compared_fast() -> None:
    assert not overlap("**a" * 85, "*b" * 127 + "c")

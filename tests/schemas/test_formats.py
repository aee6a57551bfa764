"""Formats of the contract, and the explanation of values that do not match."""

import pytest

from schemas.formats import FORMATS, explain


@pytest.mark.parametrize("text", ["acme/*", "!acme/docs", "**", "*/*"])
def test_valid_repository_glob_is_accepted(text: str) -> None:
    assert FORMATS["repository-glob"](text)


@pytest.mark.parametrize("text", ["acme/{a,b}", "acme", "a/b/c", "acme/***", "acme/w?b"])
def test_invalid_glob_is_explained(text: str) -> None:
    assert not FORMATS["repository-glob"](text)
    assert explain("repository-glob", text)


@pytest.mark.parametrize("text", ["", "a" * 257])
def test_glob_of_a_wrong_length_is_left_to_the_length_keyword(text: str) -> None:
    assert FORMATS["repository-glob"](text)
    assert FORMATS["branch-glob"](text)


@pytest.mark.parametrize(("text", "good"), [("   short    ", False), ("  long enough  ", True), ("short", True)])
def test_reason_length_excludes_white_space_at_both_ends(text: str, good: bool) -> None:
    assert FORMATS["reason"](text) is good

"""Formats of the contract that know better than to say their name."""

import pytest

from schemas.formats import FORMATS, explain


@pytest.mark.parametrize("text", ["acme/*", "!acme/docs", "**", "*/*"])
def test_a_repository_glob_is_accepted(text: str) -> None:
    assert FORMATS["repository-glob"](text)


@pytest.mark.parametrize("text", ["acme/{a,b}", "acme", "a/b/c", "acme/***", "acme/w?b"])
def test_a_pattern_that_does_not_parse_is_explained(text: str) -> None:
    assert not FORMATS["repository-glob"](text)
    assert explain("repository-glob", text)


@pytest.mark.parametrize("text", ["", "a" * 257])
def test_what_the_length_tells_is_not_told_twice(text: str) -> None:
    assert FORMATS["repository-glob"](text)
    assert FORMATS["branch-glob"](text)


@pytest.mark.parametrize(("text", "good"), [("   short    ", False), ("  long enough  ", True), ("short", True)])
def test_a_reason_is_counted_without_the_white_space_around_it(text: str, good: bool) -> None:
    assert FORMATS["reason"](text) is good

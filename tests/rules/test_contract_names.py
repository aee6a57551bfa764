"""The contract's names, and those in Python."""

import pytest

from rules.contract_names import camel_case, snake_case


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("freezeId", "freeze_id"),
        ("q", "q"),
        ("If-None-Match", "if_none_match"),
        ("X-GitHub-Event", "x_github_event"),
        ("previewedRepoCount", "previewed_repo_count"),
    ],
)
def test_snake_case_splits_words_at_capitals_or_at_hyphens(name: str, expected: str) -> None:
    assert snake_case(name) == expected


@pytest.mark.parametrize("name", ["freezeId", "q", "previewedRepoCount"])
def test_camel_case_is_the_name_of_the_contract_again(name: str) -> None:
    assert camel_case(snake_case(name)) == name

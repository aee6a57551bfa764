"""The contract's names in Python."""

import pytest

from schemas.names import snake_case


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

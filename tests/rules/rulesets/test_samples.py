"""The sample branch: a name that does not exist, with which a pattern's rule is checked for new branches."""

from rules.rulesets.needs import KnownBranch, KnownRepository, needs_of, sample_branch


def sample(*globs: str, **check_names: str) -> dict[str, str | None]:
    branches = tuple(KnownBranch(f"wbr_{name}", name, check, in_scope=True) for name, check in check_names.items())
    repository = KnownRepository("rep_1", 1, "acme", "web", archived=False, auto_watch=globs, branches=branches)
    return {need.check_name: sample_branch(need) for need in needs_of(repository, with_patterns=True)}


def test_pattern_has_a_sample_unless_it_is_excluded() -> None:
    assert sample("release/*") == {"change-freeze/release/*": "release/0"}
    assert sample("release/*", "!release/0") == {"change-freeze/release/*": None}


def test_excluded_branch_may_have_a_name_that_is_no_valid_glob() -> None:
    names = {"v{1}": "change-freeze/v{1}"}
    assert sample("**", **names) == {"change-freeze/**": "0", "change-freeze/v{1}": None}

"""The branch that nobody has, by whose name it is asked whether a pattern's rule covers new branches."""

from rules.rulesets.needs import KnownBranch, KnownRepository, needs_of, sample_branch


def sample(*globs: str, **check_names: str) -> dict[str, str | None]:
    branches = tuple(KnownBranch(f"wbr_{name}", name, check, in_scope=True) for name, check in check_names.items())
    repository = KnownRepository("rep_1", 1, "acme", "web", archived=False, auto_watch=globs, branches=branches)
    return {need.check_name: sample_branch(need) for need in needs_of(repository, with_patterns=True)}


def test_a_pattern_has_a_sample_unless_it_is_spared() -> None:
    assert sample("release/*") == {"change-freeze/release/*": "release/0"}
    assert sample("release/*", "!release/0") == {"change-freeze/release/*": None}


def test_a_spared_branch_may_be_called_what_no_glob_may() -> None:
    names = {"v{1}": "change-freeze/v{1}"}
    assert sample("**", **names) == {"change-freeze/**": "0", "change-freeze/v{1}": None}

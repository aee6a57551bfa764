"""Rulesets: GitHub's patterns name the very branches that ours do."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.errors import ServiceError
from rules.freezes.check_names import PREFIX, pattern_check_name
from rules.freezes.globs import compile_globs
from rules.rulesets.rulesets import (
    MAX_PATTERNS,
    desired_ruleset,
    excluded_patterns,
    pattern_of,
    ref_patterns,
    required_integrations,
    requires,
    requires_from,
    ruleset_name,
)
from tools.fake_github.model.rulesets import matches_pattern, validate

APP = 4711
NAME = "change-freeze/release/*"


def covered(pattern: str, branch: str) -> bool:
    return any(matches_pattern(ref, branch, "main") for ref in ref_patterns(pattern))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("main", ["refs/heads/main"]),
        ("release/*", ["refs/heads/release/*"]),
        ("release/**", ["refs/heads/release/**/*"]),
        ("**", ["refs/heads/**/*"]),
        ("**/hotfix", ["refs/heads/**/*/hotfix"]),
        ("a/**/b", ["refs/heads/a/**/*/b"]),
        ("**fix", ["refs/heads/**/*fix"]),
        ("v**/x", ["refs/heads/v*/**/x"]),
        ("v**", ["refs/heads/v*", "refs/heads/v*/**/*"]),
        ("a**b", ["refs/heads/a*b", "refs/heads/a*/**/*b"]),
        ("what?[x]", ["refs/heads/what[?][[]x]"]),
    ],
)
def test_pattern_becomes_github_patterns(pattern: str, expected: list[str]) -> None:
    assert ref_patterns(pattern) == expected


ATOMS = st.sampled_from(["a", "b", "A", "/", "-", ".", "*", "**"])


def _spelled(atoms: list[str]) -> str:
    return re.sub(r"/{2,}", "/", re.sub(r"\*{3,}", "**", "".join(atoms))).strip("/")


GLOBS = st.lists(ATOMS, min_size=1, max_size=7).map(_spelled).filter(bool)
BRANCHES = st.lists(st.text("abA-.", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join)


@given(pattern=GLOBS, branch=BRANCHES)
@example(pattern="**", branch="a")
@example(pattern="**/a", branch="a")
@example(pattern="a/**", branch="a")
@example(pattern="a**b", branch="a/b")
@example(pattern="a**/b", branch="a/b")
@example(pattern="a/**b", branch="a/b")
@example(pattern="**a**", branch="b/a/b")
def test_github_patterns_match_exactly_the_branches_of_the_glob(pattern: str, branch: str) -> None:
    assert covered(pattern, branch) == compile_globs([pattern], "branch", "/patterns").matches(branch)


@given(pattern=GLOBS, data=st.data())
def test_branch_made_from_a_glob_is_covered(pattern: str, data: st.DataObject) -> None:
    runs = {"**": st.sampled_from(["", "a", "a/b", "b/a/b"]), "*": st.sampled_from(["", "a", "ab"])}
    parts = [data.draw(runs[part]) if part in runs else part for part in re.split(r"(\*+)", pattern)]
    branch = "".join(parts)
    if branch and "" not in branch.split("/"):
        assert covered(pattern, branch)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12).filter(
    lambda name: "*" not in name and "" not in name.split("/")
)


@given(name=NAMES, other=NAMES)
@example(name="[ab]", other="a")
@example(name="a?", other="ab")
@example(name="{a,b}", other="a")
@example(name="[!a]", other="b")
@example(name="a\\b", other="ab")
@example(name="]", other="[")
def test_plain_name_covers_only_itself(name: str, other: str) -> None:
    assert covered(name, name)
    assert covered(name, other) == (name == other)


def test_glob_with_too_many_patterns_is_rejected() -> None:
    assert len(ref_patterns("/".join(["a**b"] * 6))) == MAX_PATTERNS
    with pytest.raises(ServiceError) as refused:
        ref_patterns("**a" * 85)
    assert refused.value.code == "invalid_glob"
    assert len(ref_patterns("/".join(["**"] * 40))) == 1


def test_ruleset_requires_our_check_without_bypass_actors() -> None:
    ruleset = desired_ruleset(NAME, APP)
    validate(ruleset, "Repository")
    assert ruleset == {
        "name": "Change freeze: release/*",
        "target": "branch",
        "enforcement": "active",
        "bypass_actors": [],
        "conditions": {"ref_name": {"include": ["refs/heads/release/*"], "exclude": []}},
        "rules": [
            {
                "type": "required_status_checks",
                "parameters": {
                    "strict_required_status_checks_policy": False,
                    "do_not_enforce_on_create": True,
                    "required_status_checks": [{"context": NAME, "integration_id": APP}],
                },
            }
        ],
    }


def test_organization_ruleset_lists_sorted_unique_repositories() -> None:
    ruleset = desired_ruleset(NAME, APP, [3, 1, 3, 2])
    validate(ruleset, "Organization")
    assert ruleset["conditions"]["repository_id"] == {"repository_ids": [1, 2, 3]}


def test_excluded_patterns_become_conditions() -> None:
    names = desired_ruleset("change-freeze/**", APP, exclude=["main", "wip**"])["conditions"]["ref_name"]
    assert names == {
        "include": ["refs/heads/**/*"],
        "exclude": ["refs/heads/main", "refs/heads/wip*", "refs/heads/wip*/**/*"],
    }


@pytest.mark.parametrize(
    ("pattern", "globs", "expected"),
    [
        pytest.param("release/*", ["release/*"], [], id="alone"),
        pytest.param("rel**", ["release/*", "rel**"], ["release/*"], id="the first glob gives the name"),
        pytest.param("release/*", ["release/*", "rel**"], [], id="later ones take nothing away"),
        pytest.param("release/*", ["hotfix/*", "release/*"], [], id="what nothing has in common with it"),
        pytest.param("release/*", ["release/*", "!release/old*"], ["release/old*"], id="excluded later"),
        pytest.param("release/*", ["!release/old", "release/*"], [], id="excluded before, so taken in again"),
        pytest.param("main", ["m*"], [], id="a name matches no other branch"),
        pytest.param("v{1}", [], [], id="a name that would not do as a glob"),
    ],
)
def test_rule_excludes_branches_that_never_get_its_check(pattern: str, globs: list[str], expected: list[str]) -> None:
    assert excluded_patterns(pattern, globs, {}) == expected


def test_rule_excludes_branches_with_another_check_name() -> None:
    names = {"main": "change-freeze/main", "release/1": "change-freeze/**", "v{1}": "change-freeze/v{1}"}
    assert excluded_patterns("**", ["**"], names) == ["main", "v{1}"]
    assert excluded_patterns("main", ["**"], names) == []


def test_rule_excludes_no_branch_whose_check_it_requires() -> None:
    globs = ["release/*", "hotfix/*", "**"]
    assert excluded_patterns("**", globs, {"release/1": "change-freeze/**"}) == ["hotfix/*"]
    assert excluded_patterns("release/*", globs, {"release/1": "change-freeze/**"}) == ["release/1"]


def test_former_glob_excludes_branches_of_current_globs() -> None:
    assert excluded_patterns("rel**", ["release/*", "rel**"], {"relay": "change-freeze/rel**"}) == ["release/*"]


GLOB_LISTS = st.lists(st.tuples(st.sampled_from(["", "!"]), GLOBS).map("".join), min_size=1, max_size=4).filter(
    lambda globs: not all(glob.startswith("!") for glob in globs)
)


@given(globs=GLOB_LISTS, branch=BRANCHES)
@example(globs=["*a", "!ba"], branch="ba")
def test_no_rule_covers_a_branch_that_never_gets_its_check(globs: list[str], branch: str) -> None:
    """A branch's own name is no glob: its rule is written only while that branch is watched."""
    name = pattern_check_name(branch, globs)
    for pattern in globs:
        if "*" in pattern and not pattern.startswith("!") and PREFIX + pattern != name:
            names = desired_ruleset(PREFIX + pattern, APP, None, excluded_patterns(pattern, globs, {}))["conditions"][
                "ref_name"
            ]
            held, let_go = (any(matches_pattern(ref, branch, "") for ref in names[side]) for side in names)
            assert not held or let_go


@given(globs=GLOB_LISTS, branch=BRANCHES)
def test_watched_branch_is_covered_by_the_rule_of_its_pattern(globs: list[str], branch: str) -> None:
    if (name := pattern_check_name(branch, globs)) is not None:
        pattern = pattern_of(name)
        every = excluded_patterns(pattern, globs, {branch: PREFIX + pattern})
        names = desired_ruleset(PREFIX + pattern, APP, None, every)["conditions"]["ref_name"]
        assert any(matches_pattern(ref, branch, "") for ref in names["include"])
        assert not any(matches_pattern(ref, branch, "") for ref in names["exclude"])


def test_check_name_yields_its_pattern() -> None:
    assert pattern_of("change-freeze/change-freeze/x") == "change-freeze/x"
    assert ruleset_name(pattern_of(NAME)) == "Change freeze: release/*"
    with pytest.raises(ValueError, match="ci/build"):
        pattern_of("ci/build")


def _rule(*checks: dict[str, object]) -> dict[str, object]:
    return {"type": "required_status_checks", "parameters": {"required_status_checks": list(checks)}}


@pytest.mark.parametrize(
    ("rule", "integrations"),
    [
        pytest.param(desired_ruleset(NAME, APP)["rules"][0], [APP], id="ours"),
        pytest.param(_rule({"context": NAME}), [None], id="anybody may write it"),
        pytest.param(_rule({"context": NAME, "integration_id": None}), [None], id="anybody may write it, in words"),
        pytest.param(_rule({"context": NAME, "integration_id": 9}, {"context": "x"}), [9], id="another App"),
        pytest.param(_rule({"context": NAME.upper(), "integration_id": APP}), [], id="another check"),
        pytest.param({"type": "deletion"}, [], id="another rule"),
        pytest.param({"type": "required_status_checks", "parameters": None}, [], id="nothing"),
    ],
)
def test_rule_names_the_app_of_a_required_check(rule: dict[str, object], integrations: list[int | None]) -> None:
    assert required_integrations(rule, NAME) == integrations
    assert requires(rule, NAME) == bool(integrations)
    assert requires_from(rule, NAME, APP) == (APP in integrations)

"""What scopes share: an index of branches answers as the scopes themselves do, branch by branch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.freezes.scope import FreezableBranch, compile_scope
from rules.time.schedule_overlaps import BranchIndex, named_repositories

NAMES = ("acme/web", "acme/web-api", "Acme/Docs", "acme/docs2", "globex/web")
BRANCHES = ("main", "release/1", "release/1/fix")
IDS = {name: f"rep_{number}" for number, name in enumerate(NAMES)}
EVERYTHING = [
    FreezableBranch(f"wbr_{IDS[name]}_{branch}", IDS[name], name, branch) for name in NAMES for branch in BRANCHES
]
KNOWN = {**IDS, **{repository_id: repository_id for repository_id in IDS.values()}}

PATTERNS = ("acme/*", "ACME/W*", "*/web", "**", "acme/docs", "!acme/docs", "!*/web", "initech/*", "acme/web*", "g**b")
GLOBS = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).filter(
    lambda patterns: any(not pattern.startswith("!") for pattern in patterns)
)
BRANCH_GLOBS = st.none() | st.sampled_from([["main"], ["release/*"], ["release/**"], ["**", "!main"], ["hotfix"]])


@st.composite
def scopes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a scope, with references that are known and some that are not."""
    narrowed = draw(BRANCH_GLOBS)
    more: dict[str, Any] = {} if narrowed is None else {"branches": narrowed}
    named = st.sampled_from([*NAMES, *IDS.values(), "acme/gone"])
    of_branch = st.fixed_dictionaries(
        {"type": st.just("branch"), "repository": named, "branch": st.sampled_from([*BRANCHES, "nowhere"])}
    )
    whole = st.one_of(
        st.just({"type": "organization"}),
        st.fixed_dictionaries({"type": st.just("glob"), "patterns": GLOBS}),
        st.fixed_dictionaries({"type": st.just("repositories"), "repositories": st.lists(named, max_size=4)}),
    )
    by_id = st.sampled_from([branch.branch_id for branch in EVERYTHING] + ["wbr_gone"]).map(
        lambda branch_id: {"type": "branch", "branchId": branch_id}
    )
    return draw(st.one_of(whole.map(lambda scope: scope | more), of_branch, by_id))


def by_asking_each(scope: dict[str, Any]) -> set[str]:
    """Return the branches that a scope covers, asked of every one of them."""
    repositories = [KNOWN[name] for name in scope.get("repositories", ()) if name in KNOWN]
    branch_id = scope.get("branchId")
    if "repository" in scope:
        places = {(branch.repository_id, branch.branch): branch.branch_id for branch in EVERYTHING}
        branch_id = places.get((KNOWN.get(scope["repository"], ""), scope["branch"]))
    compiled = compile_scope(scope, repositories=repositories, branch_id=branch_id)
    return {branch.branch_id for branch in EVERYTHING if compiled.covers(branch)}


@given(scope=scopes())
def test_branch_index_finds_the_branches_that_a_scope_covers(scope: dict[str, Any]) -> None:
    reached = [branch.branch_id for branch in BranchIndex(EVERYTHING).reached(scope, KNOWN)]
    assert len(reached) == len(set(reached))
    assert set(reached) == by_asking_each(scope)


@given(one=scopes(), other=scopes())
def test_scopes_share_the_branches_that_both_cover(one: dict[str, Any], other: dict[str, Any]) -> None:
    index = BranchIndex(BranchIndex(EVERYTHING).reached(one, KNOWN))
    shared = {branch.branch_id for branch in index.reached(other, KNOWN)}
    assert shared == by_asking_each(one) & by_asking_each(other)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param({"type": "organization"}, set(), id="an organisation names none"),
        pytest.param({"type": "repositories", "repositories": ["a/b", "rep_1"]}, {"a/b", "rep_1"}, id="a list"),
        pytest.param({"type": "branch", "repository": "a/b", "branch": "main"}, {"a/b"}, id="a branch by its name"),
        pytest.param({"type": "branch", "branchId": "wbr_1"}, set(), id="a branch by its id"),
    ],
)
def test_repository_names_of_scopes_are_collected(scope: dict[str, Any], expected: set[str]) -> None:
    assert named_repositories([scope, {"type": "repositories", "repositories": ["c/d"]}]) == {*expected, "c/d"}

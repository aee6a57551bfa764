"""Scopes: which watched branches they reach, and which scopes lie inside others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.errors import ServiceError
from rules.freezes.scope import FreezableBranch, compile_scope, scope_contains

WEB = FreezableBranch("wbr_web_main", "rep_web", "acme/web", "main")
WEB_RELEASE = FreezableBranch("wbr_web_release", "rep_web", "acme/web", "release/1")
DOCS = FreezableBranch("wbr_docs_main", "rep_docs", "acme/docs", "main")
EVERYTHING = [WEB, WEB_RELEASE, DOCS]

ORGANIZATION: dict[str, Any] = {"type": "organization"}
GLOB: dict[str, Any] = {"type": "glob", "patterns": ["acme/*", "!acme/docs"]}
REPOSITORIES: dict[str, Any] = {"type": "repositories", "repositories": ["acme/docs"]}
BRANCH: dict[str, Any] = {"type": "branch", "branchId": WEB.branch_id}


def reached(scope: dict[str, Any], **resolved: Any) -> list[FreezableBranch]:
    compiled = compile_scope(scope, **resolved)
    return [branch for branch in EVERYTHING if compiled.covers(branch)]


@pytest.mark.parametrize(
    ("scope", "resolved", "expected"),
    [
        pytest.param(ORGANIZATION, {}, EVERYTHING, id="an organisation reaches everything"),
        pytest.param(GLOB, {}, [WEB, WEB_RELEASE], id="a glob reaches what its patterns match"),
        pytest.param(REPOSITORIES, {"repositories": ["rep_docs"]}, [DOCS], id="a list reaches what it resolved to"),
        pytest.param(REPOSITORIES, {}, [], id="a list that resolved to nothing reaches nothing"),
        pytest.param(BRANCH, {"branch_id": WEB.branch_id}, [WEB], id="a branch reaches itself"),
        pytest.param(BRANCH, {}, [], id="a branch that is not watched reaches nothing"),
        pytest.param({**ORGANIZATION, "branches": ["main"]}, {}, [WEB, DOCS], id="branch globs narrow an organisation"),
        pytest.param({**GLOB, "branches": ["release/*"]}, {}, [WEB_RELEASE], id="branch globs narrow a glob"),
        pytest.param(
            {**REPOSITORIES, "branches": ["**", "!main"]},
            {"repositories": ["rep_web", "rep_docs"]},
            [WEB_RELEASE],
            id="branch globs narrow a list",
        ),
    ],
)
def test_scope_covers_the_branches_it_reaches(
    scope: dict[str, Any], resolved: dict[str, Any], expected: list[FreezableBranch]
) -> None:
    assert reached(scope, **resolved) == expected


@pytest.mark.parametrize(
    ("scope", "open_ended"),
    [
        pytest.param(ORGANIZATION, True, id="an organisation"),
        pytest.param(GLOB, True, id="a glob"),
        pytest.param(REPOSITORIES, False, id="a list"),
        pytest.param(BRANCH, False, id="a branch"),
    ],
)
def test_only_open_ended_scopes_add_later_branches(scope: dict[str, Any], open_ended: bool) -> None:
    assert compile_scope(scope).open_ended is open_ended


NARROW = {**ORGANIZATION, "branches": ["main"]}


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        pytest.param(ORGANIZATION, ORGANIZATION, True, id="an organisation holds an organisation"),
        pytest.param(ORGANIZATION, GLOB, True, id="an organisation holds every glob"),
        pytest.param(GLOB, ORGANIZATION, False, id="no glob holds an organisation"),
        pytest.param({"type": "glob", "patterns": ["**"]}, ORGANIZATION, False, id="not even a glob of everything"),
        pytest.param(GLOB, GLOB, True, id="a glob holds the same patterns"),
        pytest.param({"type": "glob", "patterns": ["acme/*"]}, GLOB, True, id="a glob holds narrower patterns"),
        pytest.param(GLOB, {"type": "glob", "patterns": ["*/*"]}, False, id="a glob holds no wider patterns"),
        pytest.param(REPOSITORIES, {"type": "glob", "patterns": ["acme/docs"]}, None, id="literals count as a list"),
        pytest.param(REPOSITORIES, GLOB, False, id="a list holds no glob"),
        pytest.param(BRANCH, ORGANIZATION, False, id="a branch holds no organisation"),
        pytest.param(ORGANIZATION, REPOSITORIES, None, id="of a list only its targets decide"),
        pytest.param(BRANCH, BRANCH, None, id="of a branch only its target decides"),
        pytest.param(NARROW, ORGANIZATION, False, id="a narrowed scope does not hold a whole one"),
        pytest.param(NARROW, NARROW, True, id="a narrowed scope holds one that is narrowed alike"),
        pytest.param(ORGANIZATION, NARROW, True, id="a whole scope holds a narrowed one"),
        pytest.param({**ORGANIZATION, "branches": ["*"]}, NARROW, True, id="branch patterns hold narrower ones"),
        pytest.param({**ORGANIZATION, "branches": ["**"]}, ORGANIZATION, True, id="all branches are a whole scope"),
    ],
)
def test_scope_contains_narrower_scopes(outer: dict[str, Any], inner: dict[str, Any], expected: bool | None) -> None:
    assert scope_contains(outer, inner) is expected


PATTERNS = st.lists(st.sampled_from(["acme/*", "*/web", "!acme/docs", "**", "acme/w*"]), min_size=1, max_size=3)
BRANCHES = st.none() | st.lists(st.sampled_from(["main", "*", "**", "release/*", "!main"]), min_size=1, max_size=2)


def scopes() -> st.SearchStrategy[dict[str, Any]]:
    organizations = st.just(ORGANIZATION)
    globs = PATTERNS.map(lambda patterns: {"type": "glob", "patterns": patterns})
    narrowed = st.tuples(organizations | globs, BRANCHES).map(
        lambda pair: {**pair[0], "branches": pair[1]} if pair[1] else pair[0]
    )
    return narrowed.filter(_compiles)


def _compiles(scope: dict[str, Any]) -> bool:
    try:
        compile_scope(scope)
    except ServiceError:
        return False
    return True


@given(scopes(), scopes())
def test_contained_scope_reaches_nothing_outside(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    if scope_contains(outer, inner):
        assert set(reached(inner)) <= set(reached(outer))

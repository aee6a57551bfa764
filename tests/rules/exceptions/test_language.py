"""The language of rules: what must not be said, and where the error is."""

from typing import Any

import pytest

from rules.errors import ServiceError
from rules.exceptions.language import (
    Identities,
    Mention,
    People,
    Team,
    check_allow,
    mentions_of,
    parse_allow,
    people_of,
)

DOCS = {"paths": {"onlyMatching": ["docs/**"]}}
LABEL = {"label": {"name": "hotfix", "setBy": {"teams": ["acme/captains"], "accounts": ["captain"]}}}
SMALL = {"changedLines": {"atMost": 10}}


@pytest.mark.parametrize(
    "allow",
    [
        {"all": [DOCS, SMALL]},
        {"any": [DOCS, LABEL]},
        {"all": [SMALL, {"any": [DOCS, LABEL]}]},
        {"any": [{"all": [SMALL, LABEL]}, DOCS]},
        {"all": [{"paths": {"onlyMatching": ["docs/**"], "noneMatching": ["docs/api/**"]}}]},
        {"all": [DOCS] * 10},
    ],
)
def test_rule_with_a_ground_is_accepted(allow: dict[str, Any]) -> None:
    check_allow(allow)


@pytest.mark.parametrize(
    ("allow", "paths"),
    [
        ({"all": [SMALL]}, ["/allow"]),
        ({"any": [DOCS, {"head": {"sameRepository": True}}]}, ["/allow/any/1"]),
        ({"all": [SMALL, {"any": [DOCS, SMALL]}]}, ["/allow"]),
        ({"any": [{"all": [SMALL]}, SMALL]}, ["/allow/any/0", "/allow/any/1"]),
        ({"all": [{"paths": {"noneMatching": ["src/**"]}}]}, ["/allow"]),
        ({"all": [DOCS] * 11}, ["/allow"]),
        ({"any": [{"author": {"accounts": [f"a{n}-{m}" for m in range(20)]}} for n in range(3)]}, ["/allow"]),
        (
            {"all": [{"paths": {"onlyMatching": ["**", "docs/**", "*/**"]}}]},
            [f"/allow/all/0/paths/onlyMatching/{n}" for n in (0, 2)],
        ),
        ({"any": [{"all": [{"paths": {"onlyMatching": ["!src/**"]}}]}]}, ["/allow/any/0/all/0/paths/onlyMatching/0"]),
    ],
)
def test_rule_that_must_not_be_is_refused_at_its_place(allow: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(ServiceError) as refused:
        check_allow(allow)

    assert refused.value.code == "validation_failed"
    assert [detail.path for detail in refused.value.details] == paths


def test_people_of_a_rule_are_named_once() -> None:
    approved = {"approvals": {"fromTeam": "acme/captains", "atLeast": 2}}
    rule = parse_allow({"any": [LABEL, approved, {"all": [{"author": {"accounts": ["bot[bot]", "captain"]}}]}]})

    assert people_of(rule) == People(accounts=("captain", "bot[bot]"), teams=("acme/captains",))


def test_names_of_a_rule_are_found_at_their_places() -> None:
    approved = {"approvals": {"fromTeam": "acme/captains", "atLeast": 2}}

    found = list(mentions_of({"any": [{"all": [LABEL]}, approved, {"author": {"accounts": ["octocat"]}}]}))

    assert found == [
        Mention("account", "captain", "/allow/any/0/all/0/label/setBy/accounts/0"),
        Mention("team", "acme/captains", "/allow/any/0/all/0/label/setBy/teams/0"),
        Mention("team", "acme/captains", "/allow/any/1/approvals/fromTeam"),
        Mention("account", "octocat", "/allow/any/2/author/accounts/0"),
    ]


def test_identities_are_the_same_after_they_were_stored() -> None:
    identities = Identities({"captain": 1}, {"acme/captains": Team(7, organization_id=9)})

    assert Identities.from_json(identities.as_json()) == identities

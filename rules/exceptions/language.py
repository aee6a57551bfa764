"""The language of rules: which pull requests a rule lets in, as conditions in two levels of `all` and `any`.

The contract's schema has the form (at most ten conditions, lengths, known properties). What follows from the meaning is
checked here: which globs are refused, and that no alternative is without a ground. A rule names accounts and teams;
`Identities` has the ids that these names had when the rule was saved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Self

from rules.errors import Detail, ServiceError
from rules.freezes.globs import Glob, compile_globs

MAX_CONDITIONS = 10
MAX_NAMES = 50
"""Accounts and teams that a rule may name: GitHub is asked for each of them when it is saved."""


@dataclass(frozen=True, slots=True)
class People:
    """Accounts by login, and the members of teams by `organisation/slug`."""

    accounts: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Paths:
    """Every changed file matches one pattern of `only`, if there are any, and none of `none`."""

    only: tuple[str, ...] = ()
    none: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HasLabel:
    """The label was set on this head, by one of these people."""

    name: str
    set_by: People


@dataclass(frozen=True, slots=True)
class HasAuthor:
    """The pull request and each of its commits are from these people, by signatures that GitHub verified."""

    people: People


@dataclass(frozen=True, slots=True)
class HasApprovals:
    """So many members of the team have approved this head."""

    team: str
    at_least: int


@dataclass(frozen=True, slots=True)
class HeadInRepository:
    """The head is a branch of the repository itself, and not of a fork."""


@dataclass(frozen=True, slots=True)
class ChangedLinesAtMost:
    """So many lines are added and removed, or fewer."""

    at_most: int


Condition = Paths | HasLabel | HasAuthor | HasApprovals | HeadInRepository | ChangedLinesAtMost


@dataclass(frozen=True, slots=True)
class Alternatives:
    """At least one of the conditions has to be met; each of them is one condition, or several together."""

    any_of: tuple["Condition | Together", ...]


@dataclass(frozen=True, slots=True)
class Together:
    """All of them have to be met."""

    all_of: tuple["Condition | Alternatives", ...]


Allow = Together | Alternatives


@dataclass(frozen=True, slots=True)
class Team:
    """A team at GitHub, by its id and that of the organisation's account: its members are read with both."""

    id: int
    organization_id: int


@dataclass(frozen=True, slots=True)
class Identities:
    """The ids at GitHub of the accounts and teams that a rule names, by those names."""

    accounts: Mapping[str, int] = field(default_factory=dict)
    teams: Mapping[str, Team] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the identities of a stored rule."""
        teams = {name: Team(team_id, organization_id) for name, (organization_id, team_id) in stored["teams"].items()}
        return cls(dict(stored["accounts"]), teams)

    def as_json(self) -> dict[str, Any]:
        """Return the identities as they are stored: a team by the id of its organisation's account, and its own."""
        teams = {name: [team.organization_id, team.id] for name, team in self.teams.items()}
        return {"accounts": dict(self.accounts), "teams": teams}


@dataclass(frozen=True, slots=True)
class Mention:
    """An account or a team that a rule names, and where: a JSON Pointer."""

    kind: Literal["account", "team"]
    name: str
    path: str


def parse_allow(allow: Mapping[str, Any]) -> Allow:
    """Return the conditions of a rule, given as the contract has them."""
    if "all" in allow:
        return Together(tuple(_member(each) for each in allow["all"]))
    return Alternatives(tuple(_member(each) for each in allow["any"]))


def _member(given: Mapping[str, Any]) -> Any:
    return parse_allow(given) if given.keys() & {"all", "any"} else _condition(given)


def _condition(given: Mapping[str, Any]) -> Condition:
    ((kind, value),) = given.items()
    match kind:
        case "paths":
            return Paths(tuple(value.get("onlyMatching", ())), tuple(value.get("noneMatching", ())))
        case "label":
            return HasLabel(value["name"], _people(value["setBy"]))
        case "author":
            return HasAuthor(_people(value))
        case "approvals":
            return HasApprovals(value["fromTeam"], value["atLeast"])
        case "head":
            return HeadInRepository()
        case "changedLines":
            return ChangedLinesAtMost(value["atMost"])
    raise ValueError(f"unknown condition {kind}")


def _people(given: Mapping[str, Any]) -> People:
    return People(tuple(given.get("accounts", ())), tuple(given.get("teams", ())))


def check_allow(allow: Mapping[str, Any], path: str = "/allow") -> None:
    """Raise `validation_failed` with a row for each part of a rule that must not be.

    A rule has ten conditions at most, and names 50 accounts and teams at most. Patterns name something, and do not
    exclude. Every alternative has a ground: a path, a label, an author or approvals; without one it would let
    everything in.
    """
    details = [*_too_many(allow, path), *_pattern_errors(allow, path), *_ungrounded(allow, path)]
    if details:
        raise ServiceError("validation_failed", f"{details[0].path} {details[0].message}", details=tuple(details))


def conditions_of(allow: Allow) -> Iterator[Condition]:
    """Yield the conditions of a rule, in their order."""
    for member in allow.all_of if isinstance(allow, Together) else allow.any_of:
        if isinstance(member, Together | Alternatives):
            yield from conditions_of(member)
        else:
            yield member


def people_of(allow: Allow) -> People:
    """Return every account and every team that a rule names, each once."""
    accounts: dict[str, None] = {}
    teams: dict[str, None] = {}
    for condition in conditions_of(allow):
        match condition:
            case HasLabel(set_by=people) | HasAuthor(people=people):
                accounts |= dict.fromkeys(people.accounts)
                teams |= dict.fromkeys(people.teams)
            case HasApprovals(team=team):
                teams[team] = None
            case _:
                pass
    return People(tuple(accounts), tuple(teams))


def mentions_of(allow: Mapping[str, Any], path: str = "/allow") -> Iterator[Mention]:
    """Yield the accounts and teams that a rule names, in the order of its conditions; one may come again."""
    for place, leaf in _leaves(allow, path):
        for at, people in (
            (f"{place}/label/setBy", leaf.get("label", {}).get("setBy", {})),
            (f"{place}/author", leaf.get("author", {})),
        ):
            for index, login in enumerate(people.get("accounts", ())):
                yield Mention("account", login, f"{at}/accounts/{index}")
            for index, team in enumerate(people.get("teams", ())):
                yield Mention("team", team, f"{at}/teams/{index}")
        if "approvals" in leaf:
            yield Mention("team", leaf["approvals"]["fromTeam"], f"{place}/approvals/fromTeam")


@lru_cache(maxsize=1024)
def path_glob(patterns: tuple[str, ...]) -> Glob:
    """Return the compiled patterns of paths, which were checked when the rule was saved."""
    return compile_globs(patterns, "path", "")


def _leaves(allow: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the conditions as they are given, each with its JSON Pointer."""
    key = "all" if "all" in allow else "any"
    for index, member in enumerate(allow[key]):
        place = f"{path}/{key}/{index}"
        if member.keys() & {"all", "any"}:
            yield from _leaves(member, place)
        else:
            yield place, member


def _too_many(allow: Mapping[str, Any], path: str) -> list[Detail]:
    conditions = sum(1 for _leaf in _leaves(allow, path))
    names = len({(mention.kind, mention.name) for mention in mentions_of(allow, path)})
    wrong = (
        (conditions > MAX_CONDITIONS, f"has {conditions} conditions; a rule has {MAX_CONDITIONS} at most"),
        (names > MAX_NAMES, f"names {names} accounts and teams; a rule names {MAX_NAMES} at most"),
    )
    return [Detail(path, message, "validation_failed") for is_wrong, message in wrong if is_wrong]


def _pattern_errors(allow: Mapping[str, Any], path: str) -> list[Detail]:
    details: list[Detail] = []
    for place, leaf in _leaves(allow, path):
        for name, patterns in leaf.get("paths", {}).items():
            try:
                compile_globs(patterns, "path", f"{place}/paths/{name}")
            except ServiceError as error:
                details += error.details
    return details


def _ungrounded(allow: Mapping[str, Any], path: str) -> list[Detail]:
    """Return the alternatives that have no ground."""
    if "any" in allow:
        found = [(f"{path}/any/{index}", member) for index, member in enumerate(allow["any"])]
        missing = [place for place, member in found if not _is_grounded(member)]
    else:
        missing = [] if _is_grounded(allow) else [path]
    message = "lets everything in: it needs paths.onlyMatching, a label, an author or approvals"
    return [Detail(place, message, "validation_failed") for place in missing]


def _is_grounded(given: Mapping[str, Any]) -> bool:
    """True if what meets it has a ground: of `all` one is enough, of `any` each needs one."""
    if "all" in given:
        return any(_is_grounded(each) for each in given["all"])
    if "any" in given:
        return all(_is_grounded(each) for each in given["any"])
    return bool(given.keys() & {"label", "author", "approvals"} or given.get("paths", {}).get("onlyMatching"))

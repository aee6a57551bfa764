"""Whether a pull request meets the conditions of a rule, and in words for people why not.

The same function serves passes, previews, and the answer why a pull request is blocked. Nothing here believes what the
author of the head controls alone, except the diff itself: a label or an approval counts by who gave it, when, and for
which head; an author by GitHub's verified signatures. What is unknown meets nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeVar

from rules.exceptions.facts import ChangedFiles, Commit, GitHubAccount, Label, RuleFacts, TeamMembers, Unknown
from rules.exceptions.language import (
    Allow,
    Alternatives,
    ChangedLinesAtMost,
    Condition,
    HasApprovals,
    HasAuthor,
    HasLabel,
    HeadInRepository,
    Identities,
    Paths,
    People,
    Together,
    path_glob,
)
from rules.freezes.scope_words import join_words

CLOCKS_DIFFER = timedelta(seconds=5)
"""By how much GitHub's clock may differ from ours: a label that is set sooner after a push was seen does not count."""

Fact = TypeVar("Fact")
Outcome = Literal["met", "missed", "open"]
"""`open`: it depends on facts that are not read yet."""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """A condition, and whether it is met."""

    outcome: Outcome
    requires: str
    """What it requires, in words that follow "needs": `the label hotfix, set by @acme/captains on this head`."""
    found: str
    """What was found instead, a sentence; empty where it is met."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Whether a pull request meets a rule: the results of its conditions, in their order."""

    outcome: Outcome
    conditions: tuple[ConditionResult, ...]

    @property
    def missing(self) -> tuple[ConditionResult, ...]:
        """The conditions that are not met; of alternatives there may be some in a rule that is met."""
        return tuple(condition for condition in self.conditions if condition.outcome == "missed")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one pull request is judged by."""

    facts: RuleFacts
    head_since: datetime
    """When we recorded the head as that of the pull request, by our clock."""
    identities: Identities
    members: TeamMembers
    self_approval: bool
    """Whether a label or an approval by those who wrote the head counts."""

    def accounts_of(self, people: People) -> frozenset[int]:
        """Return the ids of people. Raise `UnknownFactError` if one of the teams cannot be read."""
        found = {self.identities.accounts[login] for login in people.accounts if login in self.identities.accounts}
        return frozenset(found.union(*map(self.members_of, people.teams)))

    def members_of(self, team: str) -> frozenset[int]:
        """Return the ids of a team's members. Raise `UnknownFactError`."""
        known = self.identities.teams.get(team)
        members = None if known is None else self.members.get(known.id)
        if members is None:
            raise UnknownFactError(f"the team @{team} is not known")
        if isinstance(members, Unknown):
            raise UnknownFactError(f"GitHub does not say who is in @{team} ({members.why})")
        return members

    def is_later(self, at: datetime, *instants: datetime) -> bool:
        """True if something was done after the head was last force-pushed, the base changed, and after instants."""
        changed = self.facts.changed_at
        return all(at > instant for instant in (*instants, *([changed] if changed else [])))

    def writers(self) -> frozenset[int]:
        """Return the accounts that wrote the head: its author, those of its commits, and who pushed it.

        Raise `UnknownFactError`, also if GitHub resolves a commit to no account, and `NotReadError`.
        """
        found = {_known(self.facts.author).id} | self.facts.forced_by
        for commit in self.commits():
            committer = commit.author_id if commit.by_github else commit.committer_id
            if commit.author_id is None or committer is None:
                raise UnknownFactError(f"commit {commit.sha[:7]} is from an address that no account has")
            found |= {commit.author_id, committer}
        return frozenset(found) | self.pushers()

    def pushers(self) -> frozenset[int]:
        """Return the accounts that pushed the head. Raise `UnknownFactError` and `NotReadError`."""
        pushers = _known(self.facts.pushed_by)
        if pushers is None:
            raise NotReadError
        return pushers

    def commits(self) -> tuple[Commit, ...]:
        """Return the commits of the head. Raise `UnknownFactError` and `NotReadError`."""
        commits = _known(self.facts.commits)
        if commits is None:
            raise NotReadError
        return commits


class UnknownFactError(Exception):
    """A condition depends on a fact that is not known; the message says why."""


class NotReadError(Exception):
    """A condition depends on facts that are not read yet."""


def _known(fact: Fact | Unknown) -> Fact:
    if isinstance(fact, Unknown):
        raise UnknownFactError(fact.why)
    return fact


def evaluate(allow: Allow, evidence: Evidence) -> Evaluation:
    """Return whether a pull request meets a rule's conditions."""
    results: list[ConditionResult] = []
    outcome = _evaluate_group(allow, evidence, results)
    return Evaluation(outcome, tuple(results))


def _evaluate_group(group: Allow, evidence: Evidence, results: list[ConditionResult]) -> Outcome:
    members = group.all_of if isinstance(group, Together) else group.any_of
    outcomes = [_evaluate_member(member, evidence, results) for member in members]
    if isinstance(group, Together):
        return "missed" if "missed" in outcomes else "open" if "open" in outcomes else "met"
    return "met" if "met" in outcomes else "open" if "open" in outcomes else "missed"


def _evaluate_member(member: Condition | Allow, evidence: Evidence, results: list[ConditionResult]) -> Outcome:
    if isinstance(member, Together | Alternatives):
        return _evaluate_group(member, evidence, results)
    outcome: Outcome = "open"
    found: str | None = ""
    with suppress(NotReadError):
        try:
            found = _what_is_wrong(member, evidence)
        except UnknownFactError as unknown:
            found = f"It is not known: {unknown}."
        outcome = "met" if found is None else "missed"
    results.append(ConditionResult(outcome, requires(member), found or ""))
    return outcome


def _what_is_wrong(condition: Condition, evidence: Evidence) -> str | None:
    """Return None if a condition is met, else a sentence that says what was found instead.

    Raise `UnknownFactError` and `NotReadError`.
    """
    match condition:
        case Paths():
            return _wrong_files(condition, _known(evidence.facts.files))
        case HasLabel():
            return _wrong_label(condition, evidence)
        case HasAuthor(people):
            return _wrong_author(evidence.accounts_of(people), evidence)
        case HasApprovals():
            return _wrong_approvals(condition, evidence)
        case HeadInRepository():
            return None if evidence.facts.same_repository else "The head is in a fork."
        case ChangedLinesAtMost(at_most):
            lines = evidence.facts.changed_lines
            return None if lines <= at_most else f"It changes {lines} lines."


@lru_cache(maxsize=1024)
def requires(condition: Condition) -> str:
    """Return what a condition requires, in words that follow "needs"."""
    match condition:
        case Paths(only, none):
            parts = [f"only files that match {join_words(only, 'or')}"] if only else []
            return " and ".join([*parts, *([f"no file that matches {join_words(none, 'or')}"] if none else [])])
        case HasLabel(name, set_by):
            return f"the label {name}, set by {_people(set_by)} on this head"
        case HasAuthor(people):
            return f"{_people(people)} as author, and as verified signer of every commit"
        case HasApprovals(team, at_least):
            return f"{at_least} {'approval' if at_least == 1 else 'approvals'} of this head from @{team}"
        case HeadInRepository():
            return "a head in this repository"
        case ChangedLinesAtMost(at_most):
            return f"at most {at_most} changed lines"


def _people(people: People) -> str:
    return join_words((*(f"@{team}" for team in people.teams), *people.accounts), "or")


def is_protected(path: str) -> bool:
    """True if no condition on paths is met by a change of the file: it decides who may change what, or what runs."""
    parts = path.casefold().split("/")
    return parts[0] == ".github" or parts[-1] == "codeowners" or not {"", ".", ".."}.isdisjoint(parts)


def _wrong_files(condition: Paths, files: ChangedFiles) -> str | None:
    wrong = next((path for path in _paths(files) if not _may_change(condition, path)), None)
    if wrong is not None:
        return f"It changes {wrong}{', which no path lets in' if is_protected(wrong) else ''}."
    if not files.complete:
        raise NotReadError
    return None if files.listed else "It changes no file."


def _may_change(condition: Paths, path: str) -> bool:
    if is_protected(path) or (condition.none and path_glob(condition.none).matches(path)):
        return False
    return not condition.only or path_glob(condition.only).matches(path)


def _paths(files: ChangedFiles) -> Iterator[str]:
    return (path for file in files.listed for path in file.paths)


def _wrong_label(condition: HasLabel, evidence: Evidence) -> str | None:
    labels = _known(evidence.facts.labels)
    label = next((label for label in labels if label.name.casefold() == condition.name.casefold()), None)
    if label is None:
        return "It does not have the label."
    if label.set_by is None or label.set_at is None:
        return "GitHub does not say who set the label."
    if label.set_by.id not in evidence.accounts_of(condition.set_by):
        return f"It was set by {label.set_by.login}."
    if outdated := _outdated(label, label.set_at, evidence):
        return outdated
    if _independent([label.set_by], evidence) < 1:
        return f"It was set by {label.set_by.login}, who wrote the head."
    return None


def _outdated(label: Label, set_at: datetime, evidence: Evidence) -> str | None:
    """Return why what a label says may not be what the person meant who set it; None if it is."""
    if label.changed_at is not None and label.changed_at >= set_at:
        return "The label was renamed or changed after it was set; set it again."
    if not evidence.is_later(set_at, evidence.head_since + CLOCKS_DIFFER):
        return "It was set before this head and base were seen; set it again."
    return None


def _wrong_author(allowed: frozenset[int], evidence: Evidence) -> str | None:
    author = _known(evidence.facts.author)
    if author.id not in allowed:
        return f"The author is {author.login}."
    commits = evidence.commits()
    for commit in commits:
        if commit.author_id not in allowed or commit.signed_by not in allowed:
            return f"Commit {commit.sha[:7]} is not theirs by a signature that GitHub verified."
    return None if commits else "It has no commit."


def _wrong_approvals(condition: HasApprovals, evidence: Evidence) -> str | None:
    allowed = evidence.members_of(condition.team)
    counted = {
        approval.by.id: approval.by
        for approval in _known(evidence.facts.approvals)
        if approval.by.id in allowed
        and approval.commit == evidence.facts.head_sha
        and evidence.is_later(approval.submitted_at)
    }
    found = len(counted)
    if found >= condition.at_least:
        found = _independent(list(counted.values()), evidence)
    return None if found >= condition.at_least else f"It has {found}, not counting those who wrote the head."


def _independent(people: Sequence[GitHubAccount], evidence: Evidence) -> int:
    """Return how many of these people count: those who have not written the head, if nobody may decide on their own."""
    if evidence.self_approval:
        return len(people)
    writers = evidence.writers()
    return sum(1 for person in people if person.id not in writers)

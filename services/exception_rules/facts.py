"""The facts that rules read: from GitHub, and from what was read before of a pull request that has not changed since.

One query reads those of 25 pull requests. What takes a call for each of them is read only where a rule depends on it:
the commits, who pushed them, and the files where there are many or one was renamed.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock

from integrations.github import ErrorKind, FactKinds, GitHubError, InstallationClient
from rules.batches import batches
from rules.exceptions.evaluation import CLOCKS_DIFFER, Evaluation, Evidence, evaluate
from rules.exceptions.facts import RuleFacts, Unknown
from rules.exceptions.language import HasApprovals, HasLabel, Paths, Team, conditions_of, people_of
from services.exception_rules.applicable import RuledBranch, RuleInForce, latest_change, rules_of
from services.github_access.failures import is_installation_wide

PULLS_PER_QUERY = 25
MEMBERS_LAST = timedelta(seconds=60)
"""For how long the members of a team are not read again, unless GitHub says that they have changed."""
FACTS_LAST = timedelta(minutes=10)
"""After how long facts are read again of a pull request that has not changed: GitHub does not count a change of
the history of its base, or the deletion of a label, as one."""
_MAX_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class JudgedPull:
    """An open pull request into a branch that has rules, as the pass has read it."""

    id: str
    branch: RuledBranch
    number: int
    node_id: str
    head_sha: str
    head_since: datetime
    updated_at: datetime
    """When GitHub says that it last changed, in whole seconds."""
    found_at: datetime
    """When the pass found it, by our clock."""
    trusts_kept: bool
    """False where everything is read again: the branch is read back."""
    rank: int
    is_let_in: bool = False
    """Whether a rule lets it in now."""

    @property
    def urgency(self) -> int:
        """Place in the order of reading, smallest first: what is let in, since that may have to end; then by rank."""
        return 0 if self.is_let_in else 1 + self.rank

    @property
    def is_recent(self) -> bool:
        """Whether it changed so recently that it may change again within the same second."""
        return self.found_at - self.updated_at < 2 * CLOCKS_DIFFER

    @property
    def branch_id(self) -> str:
        """The branch that it goes into."""
        return self.branch.branch.id

    @property
    def version(self) -> tuple[object, ...]:
        """What changes with its facts, as far as GitHub says."""
        return self.node_id, self.head_sha, self.branch.branch.name, self.updated_at, self.branch.facts_changed_at()


@dataclass(slots=True)
class Findings:
    """What was read for the rules of a pass."""

    pulls: Sequence[JudgedPull]
    facts: dict[str, RuleFacts | Unknown] = field(default_factory=dict)
    """By id of the pull request."""
    members: dict[int, frozenset[int] | Unknown] = field(default_factory=dict)
    error: GitHubError | None = None
    """Why something is unknown that another attempt may find."""

    def evaluate(self, pull: JudgedPull, rule: RuleInForce) -> Evaluation | Unknown:
        """Return whether a pull request meets a rule."""
        facts = self.facts.get(pull.id, Unknown("it was not read"))
        if isinstance(facts, Unknown):
            return facts
        if facts.head_sha != pull.head_sha or facts.base != pull.branch.branch.name:
            return Unknown("it has another head or base by now")
        evidence = Evidence(facts, pull.head_since, rule.identities, self.members, pull.branch.self_approval)
        return evaluate(rule.allow, evidence)


class FactsReader:
    """Reads facts, and keeps what has not changed; thread-safe, one for each process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._facts: OrderedDict[tuple[object, ...], tuple[datetime, FactKinds, RuleFacts]] = OrderedDict()
        self._members: dict[tuple[int, int], tuple[datetime, datetime | None, frozenset[int]]] = {}

    def read(self, client: InstallationClient, pulls: Sequence[JudgedPull]) -> Findings:
        """Return the facts of pull requests, the most mergeable first. Raise GitHubError of the whole installation."""
        findings = Findings(pulls)
        for team, changed_at in _teams(pulls).items():
            findings.members[team.id] = self._members_of(client, team, changed_at, findings)
        kinds = _kinds(pulls)
        unread: list[JudgedPull] = []
        pulls = [pull for pull in pulls if pull.branch.all_rules()]
        for pull in sorted(pulls, key=lambda pull: pull.urgency):
            kept = self._kept(pull, kinds)
            if kept is None:
                unread.append(pull)
            else:
                findings.facts[pull.id] = kept
        for chunk in batches(unread, PULLS_PER_QUERY):
            self._read_chunk(client, chunk, kinds, findings)
        late = [pull for pull in pulls if self._complete(client, pull, findings)]
        for chunk in batches(late, PULLS_PER_QUERY):
            self._confirm(client, chunk, findings)
        for pull in pulls:
            self._keep(pull, kinds, findings)
        return findings

    def _members_of(
        self, client: InstallationClient, team: Team, changed_at: datetime | None, findings: Findings
    ) -> frozenset[int] | Unknown:
        key, now = (client.installation_id, team.id), max(pull.found_at for pull in findings.pulls)
        trusts_kept = all(pull.trusts_kept for pull in findings.pulls)
        with self._lock:
            kept = self._members.get(key)
        if kept is not None and kept[1] == changed_at:
            age = now - kept[0]
            if age <= timedelta(0) or (trusts_kept and age < MEMBERS_LAST):  # read since the pulls were found, or kept
                return kept[2]
        try:
            members = client.team_members(team.organization_id, team.id)
        except GitHubError as error:
            return _unknown(error, findings)
        with self._lock:
            self._members[key] = (now, changed_at, members)
        return members

    def _kept(self, pull: JudgedPull, kinds: FactKinds) -> RuleFacts | None:
        with self._lock:
            kept = self._facts.get(pull.version)
        if kept is None or not (pull.trusts_kept and pull.found_at - kept[0] <= FACTS_LAST and kept[1].include(kinds)):
            return None
        return kept[2]

    def _keep(self, pull: JudgedPull, kinds: FactKinds, findings: Findings) -> None:
        """Keep facts, unless they may change without another time of change: GitHub's times are whole seconds."""
        facts = findings.facts[pull.id]
        if isinstance(facts, Unknown) or facts.updated_at != pull.updated_at or pull.is_recent:
            return
        with self._lock:
            kept = self._facts.get(pull.version)
            if kept is not None and kept[2] is facts:
                return
            self._facts[pull.version] = (pull.found_at, kinds, facts)
            self._facts.move_to_end(pull.version)
            while len(self._facts) > _MAX_KEPT:
                self._facts.popitem(last=False)

    def _read_chunk(
        self, client: InstallationClient, chunk: Sequence[JudgedPull], kinds: FactKinds, findings: Findings
    ) -> None:
        """Read the facts of one query's worth of pull requests; once more if it fails for a moment."""
        node_ids = [pull.node_id for pull in chunk]
        try:
            try:
                results = client.rule_facts(node_ids, kinds)
            except GitHubError as error:
                if not error.transient or is_installation_wide(error):
                    raise
                results = client.rule_facts(node_ids, kinds)
        except GitHubError as error:
            results = [error] * len(chunk)
        for pull, result in zip(chunk, results, strict=True):
            findings.facts[pull.id] = _unknown(result, findings) if isinstance(result, GitHubError) else result

    def _complete(self, client: InstallationClient, pull: JudgedPull, findings: Findings) -> bool:
        """Read what takes calls for this pull request alone, if a rule depends on it; return whether it was read."""
        before = findings.facts[pull.id]
        for read in (_with_all_files, _with_commits, _with_pushers):
            facts = findings.facts[pull.id]
            if isinstance(facts, Unknown) or not _is_open(pull, findings):
                break
            try:
                findings.facts[pull.id] = read(client, pull, facts)
            except GitHubError as error:
                findings.facts[pull.id] = _unknown(error, findings)
        return findings.facts[pull.id] is not before

    def _confirm(self, client: InstallationClient, chunk: Sequence[JudgedPull], findings: Findings) -> None:
        """Keep what several calls read of pull requests only if nobody changed head or base between them.

        Else files or commits could be those of a harmless head or base that was there for a moment.
        """
        found = {pull.id: findings.facts[pull.id] for pull in chunk}
        self._read_chunk(client, chunk, FactKinds(), findings)
        for pull in chunk:
            before, now = found[pull.id], findings.facts[pull.id]
            if isinstance(before, Unknown) or (isinstance(now, RuleFacts) and _compared(before) == _compared(now)):
                findings.facts[pull.id] = before
            elif isinstance(now, RuleFacts):
                findings.facts[pull.id] = Unknown("it was changed while it was read")


def _compared(facts: RuleFacts) -> tuple[object, ...]:
    """Return what has changed if the head or the base was, even if both are what they were before."""
    return facts.head_sha, facts.base, facts.changed_at, facts.changed_files


def _with_all_files(client: InstallationClient, pull: JudgedPull, facts: RuleFacts) -> RuleFacts:
    if isinstance(facts.files, Unknown) or facts.files.complete:
        return facts
    repository = pull.branch.repository
    files = client.all_files(repository.owner, repository.name, pull.number, facts.head_sha, facts.changed_files)
    return replace(facts, files=files)


def _with_commits(client: InstallationClient, pull: JudgedPull, facts: RuleFacts) -> RuleFacts:
    repository = pull.branch.repository
    return replace(facts, commits=client.commits_of(repository.owner, repository.name, pull.number, facts.head_sha))


def _with_pushers(client: InstallationClient, pull: JudgedPull, facts: RuleFacts) -> RuleFacts:
    if facts.pushed_by is not None:
        return facts
    repository = pull.branch.repository
    try:
        pushed_by = client.pushers_of(repository.owner, repository.name, facts.head_branch)
    except GitHubError as error:
        if error.kind is not ErrorKind.PERMISSION:
            raise
        return replace(facts, pushed_by=Unknown("the App may not read who pushed the head"))
    return replace(facts, pushed_by=pushed_by)


def _is_open(pull: JudgedPull, findings: Findings) -> bool:
    """True if it depends on facts that are not read yet whether a rule lets the pull request in."""
    found = (findings.evaluate(pull, rule) for rule in pull.branch.all_rules())
    return any(not isinstance(evaluation, Unknown) and evaluation.outcome == "open" for evaluation in found)


def _unknown(error: GitHubError, findings: Findings) -> Unknown:
    """Return the fact that an error leaves unknown. Raise it if it concerns the whole installation."""
    if is_installation_wide(error):
        raise error
    if error.transient:
        findings.error = error
    return Unknown(error.message)


def _teams(pulls: Sequence[JudgedPull]) -> Mapping[Team, datetime | None]:
    """Return the teams that rules name, and when GitHub last said that one of them has other members."""
    found: dict[Team, list[RuleInForce]] = defaultdict(list)
    for rule in _rules_of(pulls):
        for name in people_of(rule.allow).teams:
            if (team := rule.identities.teams.get(name)) is not None:
                found[team].append(rule)
    return {team: latest_change(rules) for team, rules in found.items()}


def _kinds(pulls: Sequence[JudgedPull]) -> FactKinds:
    """Return what the rules of pull requests read."""
    conditions = {type(condition) for rule in _rules_of(pulls) for condition in conditions_of(rule.allow)}
    return FactKinds(files=Paths in conditions, labels=HasLabel in conditions, approvals=HasApprovals in conditions)


def _rules_of(pulls: Sequence[JudgedPull]) -> Collection[RuleInForce]:
    """Return every rule that applies to one of the pull requests; those of a branch are collected once."""
    return rules_of({pull.branch_id: pull.branch for pull in pulls}.values())

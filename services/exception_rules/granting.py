"""Exceptions by rule: granted to what meets a rule, and revoked in the pass that sees that it does not any more.

A rule grants an ordinary exception, pinned to the head that was judged. Where a person has revoked it, the rule does
not grant it again for that head. Locks are taken in the order of `pull_request_exceptions.changes`: freezes, rules,
branches, exceptions.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import or_, select, text

from models.checks import lock_affected
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.queries import NOW, is_one_of
from models.repositories import WatchedBranch
from rules.exceptions.evaluation import Evaluation
from rules.exceptions.facts import GitHubAccount, RuleFacts, Unknown
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.frozen_branch_requests import request_stops
from services.exception_rules.applicable import RuleInForce, freezes_of, lock_rules, ruled_branches, rules_of
from services.exception_rules.facts import Findings, JudgedPull
from services.pull_request_exceptions.changes import REVOKED_BY_PUSH, audit_change, audit_snapshots, revoke_rows

_FREEZES = (
    select(Freeze.id)
    .where(
        Freeze.id.in_(
            select(FreezeTarget.freeze_id).where(
                is_one_of(FreezeTarget.branch_id, "branches"), FreezeTarget.operation == "apply"
            )
        )
    )
    .order_by(Freeze.id)
    .with_for_update(read=True)
)
_OPEN = (
    select(PullRequestException, PullRequest)
    .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
    .join(WatchedBranch, WatchedBranch.id == PullRequestException.branch_id)
    .where(
        is_one_of(PullRequestException.freeze_id, "freezes"),
        is_one_of(PullRequestException.branch_id, "branches"),
        PullRequestException.is_open,
        or_(is_one_of(PullRequest.id, "pulls"), PullRequest.base_branch != WatchedBranch.name),
    )
    .order_by(PullRequestException.id)
    .with_for_update(of=PullRequestException)
    .execution_options(populate_existing=True)
)
"""Those of the pull requests that are judged, and of what goes into another branch now."""
_REFUSED = select(
    PullRequestException.rule_id, PullRequestException.pull_request_id, PullRequestException.head_sha
).where(
    is_one_of(PullRequestException.pull_request_id, "pulls"),
    is_one_of(PullRequestException.branch_id, "branches"),
    PullRequestException.rule_id.is_not(None),
    PullRequestException.revoked_by["type"].astext != "system",
)
_LET_IN = (
    select(PullRequestException.rule_id, PullRequestException.freeze_id, PullRequestException.pull_request_id)
    .join(Freeze, Freeze.id == PullRequestException.freeze_id)
    .where(is_one_of(PullRequestException.rule_id, "rules"), Freeze.is_in_force(NOW))
    .distinct()
)
_SAVE_RESULTS = text("""
    INSERT INTO exception_rule_results AS r
        (pull_request_id, rule_id, organization_id, head_sha, outcome, conditions, judged_at)
    SELECT *, :now FROM unnest(
        CAST(:pulls AS text[]), CAST(:rules AS text[]), CAST(:organizations AS text[]), CAST(:heads AS text[]),
        CAST(:outcomes AS text[]), CAST(:conditions AS jsonb[]))
    ON CONFLICT (pull_request_id, rule_id) DO UPDATE
    SET head_sha = excluded.head_sha, outcome = excluded.outcome, conditions = excluded.conditions,
        judged_at = excluded.judged_at
    WHERE (r.head_sha, r.outcome, r.conditions)
          IS DISTINCT FROM (excluded.head_sha, excluded.outcome, excluded.conditions)
""")
"""What was found replaces what was found before, where it differs: `judged_at` says since when it is so."""
_FORGET_RESULTS = text("""
    DELETE FROM exception_rule_results
    WHERE pull_request_id = ANY(CAST(:pulls AS text[]))
      AND pull_request_id || ' ' || rule_id <> ALL(CAST(:kept AS text[]))
""")
"""Of rules that do not apply any more to pull requests that were judged."""
_MAX_FILES_LISTED = 20


def lock_for_granting(uow: UnitOfWork, branch_ids: Collection[str], check_ids: Collection[int]) -> None:
    """Lock what granting and revoking exceptions into branches depends on, and the checks of a pass."""
    uow.session.execute(_FREEZES, {"branches": list(branch_ids)})
    lock_rules(uow, branch_ids)
    lock_affected(uow.session, branch_ids, check_ids)


def apply_rules(uow: UnitOfWork, findings: Findings, branch_ids: Collection[str]) -> set[str]:
    """Grant exceptions to the pull requests that meet a rule, and revoke those of rules that are not met any more.

    The branches are locked by `lock_for_granting`; rules and freezes are read again under the locks. Return the
    branches whose exceptions have changed.
    """
    uow.refresh_now()
    application = _Application(uow, findings, branch_ids)
    for pull in findings.pulls:
        application.judge(pull)
    application.revoke_retargeted()
    application.save()
    return application.changed


class _Application:
    """One application of rules to the pull requests that a pass has judged."""

    def __init__(self, uow: UnitOfWork, findings: Findings, branch_ids: Collection[str]) -> None:
        self._uow = uow
        self._findings = findings
        self._branches = {ruled.branch.id: ruled for ruled in ruled_branches(uow, branch_ids)}
        self._granted: list[tuple[PullRequestException, JudgedPull, RuleInForce]] = []
        self._results: list[dict[str, Any]] = []
        self._evaluations: dict[tuple[str, str], Evaluation | Unknown] = {}
        self._revoked: list[tuple[PullRequestException, str]] = []
        self.changed: set[str] = set()
        self._read()

    def _read(self) -> None:
        session = self._uow.session
        values: dict[str, Any] = {
            "branches": list(self._branches),
            "freezes": freezes_of(self._branches.values()),
            "pulls": [pull.id for pull in self._findings.pulls],
            "now": self._uow.now,
        }
        self._open = {
            (row.branch_id, row.pull_request_id, row.freeze_id): (row, pull)
            for row, pull in session.execute(_OPEN, values)
        }
        self._refused = {tuple(row) for row in session.execute(_REFUSED, values)}
        rules = rules_of(self._branches.values())
        values["rules"] = sorted(rule.row.id for rule in rules if rule.row.per_freeze is not None)
        self._let_in: dict[tuple[str, str], set[str]] = defaultdict(set)
        if values["rules"]:
            for rule_id, freeze_id, pull_id in session.execute(_LET_IN, values):
                self._let_in[str(rule_id), freeze_id].add(pull_id)

    def judge(self, pull: JudgedPull) -> None:
        """Decide what becomes of the exceptions of one pull request."""
        ruled = self._branches.get(pull.branch_id)
        if ruled is None:
            return
        pull = replace(pull, branch=ruled)
        self._results += [self._result(pull, rule) for rule in ruled.all_rules()]
        for freeze_id, rules in ruled.rules.items():
            row, _pull = self._open.get((ruled.branch.id, pull.id, freeze_id), (None, None))
            by_rule = row is not None and row.rule_name is not None
            if row is not None and row.decision == "granted" and not by_rule:
                continue
            met = [rule for rule in rules if self._lets_in(pull, rule)]
            if row is not None and by_rule:
                if row.head_sha == pull.head_sha and row.rule_id in {rule.row.id for rule in met}:
                    continue
                self._revoke(row, self._why_not(pull, rules, row))
                row = None
            rule = next((rule for rule in met if self._has_room(pull, rule, freeze_id)), None)
            if rule is not None:
                self._let_in[rule.row.id, freeze_id].add(pull.id)
                self._granted.append((row or self._new(pull, freeze_id), pull, rule))
                self.changed.add(ruled.branch.id)

    def _evaluate(self, pull: JudgedPull, rule: RuleInForce) -> Evaluation | Unknown:
        key = pull.id, rule.row.id
        if key not in self._evaluations:
            self._evaluations[key] = self._findings.evaluate(pull, rule)
        return self._evaluations[key]

    def _result(self, pull: JudgedPull, rule: RuleInForce) -> dict[str, Any]:
        """Return what was found of a rule, as it is shown to people."""
        evaluation = self._evaluate(pull, rule)
        if isinstance(evaluation, Unknown):
            outcome, conditions = "unknown", [{"outcome": "unknown", "requires": "", "found": evaluation.why}]
        else:
            refused = (rule.row.id, pull.id, pull.head_sha) in self._refused
            outcome = "revoked" if refused and evaluation.outcome == "met" else evaluation.outcome
            conditions = [
                {"outcome": each.outcome, "requires": each.requires, "found": each.found}
                for each in evaluation.conditions
            ]
        return {
            "pulls": pull.id,
            "rules": rule.row.id,
            "organizations": rule.row.organization_id,
            "heads": pull.head_sha,
            "outcomes": outcome,
            "conditions": json.dumps(conditions),
        }

    def _lets_in(self, pull: JudgedPull, rule: RuleInForce) -> bool:
        evaluation = self._evaluate(pull, rule)
        is_met = not isinstance(evaluation, Unknown) and evaluation.outcome == "met"
        return is_met and (rule.row.id, pull.id, pull.head_sha) not in self._refused

    def _has_room(self, pull: JudgedPull, rule: RuleInForce, freeze_id: str) -> bool:
        """True if the rule may let in another pull request of the freeze, or has let in this one."""
        let_in = self._let_in[rule.row.id, freeze_id]
        return rule.row.per_freeze is None or pull.id in let_in or len(let_in) < rule.row.per_freeze

    def _revoke(self, row: PullRequestException, reason: str) -> None:
        self._revoked.append((row, reason))
        self.changed.add(row.branch_id)

    def _why_not(self, pull: JudgedPull, rules: Sequence[RuleInForce], row: PullRequestException) -> str:
        """Return why the rule of an exception does not let its pull request in any more."""
        if row.head_sha != pull.head_sha:
            return REVOKED_BY_PUSH
        rule = next((rule for rule in rules if rule.row.id == row.rule_id), None)
        if rule is None:
            return "The rule does not apply any more: it was disabled, deleted or changed."
        evaluation = self._evaluate(pull, rule)
        if isinstance(evaluation, Unknown):
            return f"It is not known whether the rule is met: {evaluation.why}."
        return " ".join(f"It needs {missing.requires}. {missing.found}" for missing in evaluation.missing)

    def revoke_retargeted(self) -> None:
        """Revoke the exceptions by a rule of open pull requests that go into another branch now."""
        for row, pull in self._open.values():
            base = self._branches[row.branch_id].branch.name
            if row.rule_name is not None and pull.state == "open" and pull.base_branch != base:
                self._revoke(row, "The base of the pull request was changed.")

    def _new(self, pull: JudgedPull, freeze_id: str) -> PullRequestException:
        return PullRequestException(
            id=new_id("exc"),
            organization_id=pull.branch.branch.organization_id,
            request_group_id=new_id("exg"),
            freeze_id=freeze_id,
            pull_request_id=pull.id,
            branch_id=pull.branch_id,
            created_at=self._uow.now,
        )

    def save(self) -> None:
        """Write the changes with their audit entries, and have stops follow."""
        for row, reason in self._revoked:
            with self._uow.act_as_service(organization_id=row.organization_id):
                revoke_rows(self._uow, [row], reason=reason, rule={"id": row.rule_id, "name": row.rule_name})
        self._uow.session.flush()  # before new exceptions of the same pull requests
        for row, pull, rule in self._granted:
            with self._uow.act_as_service(organization_id=row.organization_id):
                self._grant(row, pull, rule)
        pulls = [pull.id for pull in self._findings.pulls if pull.branch_id in self._branches]
        rules = [f"{result['pulls']} {result['rules']}" for result in self._results]
        self._uow.session.execute(_FORGET_RESULTS, {"pulls": pulls, "kept": rules})
        if self._results:
            columns = {name: [result[name] for result in self._results] for name in self._results[0]}
            self._uow.session.execute(_SAVE_RESULTS, {**columns, "now": self._uow.now})
        if self.changed:
            request_stops(self._uow, self.changed)

    def _grant(self, row: PullRequestException, pull: JudgedPull, rule: RuleInForce) -> None:
        is_requested = row.requested_by is not None
        before = audit_snapshots(self._uow, [row]) if is_requested else {}
        if not is_requested:
            row.reason = rule.row.reason
            self._uow.session.add(row)
        row.rule_id, row.rule_name = rule.row.id, rule.row.name
        row.decision, row.decided_by, row.decided_at = "granted", self._uow.actor.as_json(), self._uow.now
        row.decided_through = self._uow.caller.source
        row.decision_reason = rule.row.reason if is_requested else None
        row.pin_to_head, row.head_sha = True, pull.head_sha
        details = {
            "reason": rule.row.reason,
            "rule": {"id": rule.row.id, "name": rule.row.name},
            **_audit_evidence(self._evaluate(pull, rule), self._findings.facts[pull.id]),
        }
        name = f"{pull.branch.repository.full_name}#{pull.number}"
        audit_change(self._uow, "granted", [row], before, name=name, sharing=self._sharing(pull), details=details)

    def _sharing(self, pull: JudgedPull) -> list[str]:
        """Return the names of the other pull requests of the head into the same branch."""
        return [
            f"{other.branch.repository.full_name}#{other.number}"
            for other in self._findings.pulls
            if other.head_sha == pull.head_sha and other.branch_id == pull.branch_id and other != pull
        ]


def _audit_evidence(evaluation: Evaluation | Unknown, facts: RuleFacts | Unknown) -> dict[str, Any]:
    """Return the conditions that were met, and the facts that they were met by."""
    if isinstance(evaluation, Unknown) or isinstance(facts, Unknown):
        return {}
    met = [condition.requires for condition in evaluation.conditions if condition.outcome == "met"]
    return {"conditions": met, "facts": _as_json(facts)}


def _as_json(facts: RuleFacts) -> dict[str, Any]:
    """Return the facts as the audit has them; files are listed up to a number."""
    found: dict[str, Any] = {
        "headSha": facts.head_sha,
        "base": facts.base,
        "author": None if isinstance(facts.author, Unknown) else _account(facts.author),
        "changedLines": facts.changed_lines,
        "changedFiles": facts.changed_files,
    }
    if not isinstance(facts.files, Unknown):
        found["files"] = [path for file in facts.files.listed for path in file.paths][:_MAX_FILES_LISTED]
    if not isinstance(facts.labels, Unknown):
        found["labels"] = [
            {"name": label.name, "setBy": label.set_by and _account(label.set_by), "setAt": label.set_at}
            for label in facts.labels
        ]
    if not isinstance(facts.approvals, Unknown):
        found["approvals"] = [
            {"by": _account(approval.by), "commit": approval.commit, "at": approval.submitted_at}
            for approval in facts.approvals
        ]
    return found


def _account(account: GitHubAccount) -> dict[str, Any]:
    return {"id": account.id, "login": account.login}

"""Results of probes: the branch's row, audit entries for lost and restored enforcement, and alerts.

A rule that was disabled and enabled again between two probes is detected by the time of its last change.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from integrations.github import GitHubError
from models.checks import mark_dirty
from rules.freezes.blocking import MAX_READING_AGE
from rules.rate_budget import GitHubLimits
from rules.rulesets.enforcement import Enforcement
from rules.rulesets.findings import BLOCKING_REQUIREMENTS
from services.alerts.alerts import Alert, open_alerts, resolve_alerts
from services.core.unit_of_work import UnitOfWork
from services.enforcement.probe_queue import LeasedProbe, LeasedProbes
from services.enforcement_status.frozen_branch_requests import record_lost_stops
from services.github_access.backoff import backoff
from services.github_access.client import page


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A branch, and the enforcement that its rules give."""

    probe: LeasedProbe
    found: Enforcement

    @property
    def lost(self) -> bool:
        """Whether the check blocked at the last probe, and does not any more."""
        before = self.probe.required and self.probe.light != "red"
        return self.probe.watched and self.found.seen and before and self.found.light == "red"

    @property
    def restored(self) -> bool:
        """Whether the check did not block at the last probe, and does now."""
        return self.probe.watched and self.found.seen and self.probe.light == "red" and self.found.light != "red"

    @property
    def own_rule_changed(self) -> bool:
        """Whether the branch has a rule of its own now, or has lost it, since the last probe."""
        return self.found.seen and self.found.own_rule != self.probe.own_rule

    @property
    def is_held(self) -> bool:
        """Whether a stop holds the branch where a rule requires our check as well: it is blocked, at least in part."""
        return bool(self.found.stops) and self.found.decisive_check is not None

    def changes_blocking(self, now: datetime) -> bool:
        """Return whether a freeze of the branch may be enforced now, or not any more, on account of this reading."""
        before = (self.probe.decisive_check, self.probe.open_ways)
        after = (self.found.decisive_check, list(self.found.open_ways))
        read_at, reported_at = self.probe.rules_read_at, self.probe.rules_reported_at
        is_old = read_at is None or read_at < max(now - MAX_READING_AGE, reported_at or read_at)
        stop_changes = bool(self.found.stops) != (self.probe.stop is not None)
        return self.found.seen and (is_old or before != after or stop_changes)

    @property
    def changed_externally(self) -> bool:
        """Whether the ruleset was changed since the last probe, although it blocks now as it did then."""
        before, after = (self.probe.ruleset or {}), self.found.ruleset
        if after is None or after.id is None or after.id != before.get("id") or self.lost or self.restored:
            return False
        known = before.get("updated_at") is not None and after.updated_at is not None
        return self.probe.watched and known and before["updated_at"] != after.updated_at


# A check whose rules cannot be read any more is still taken to be required.
_SAVE = text("""
    UPDATE branch_enforcement e
    SET light = found.light, required = CASE WHEN found.seen THEN found.required ELSE e.required END,
        own_rule = CASE WHEN found.seen THEN found.own_rule ELSE e.own_rule END,
        decisive_check = CASE WHEN found.seen THEN found.decisive ELSE e.decisive_check END,
        required_since = CASE WHEN NOT found.seen OR found.decisive IS NULL THEN e.required_since
                              WHEN e.required_since IS NULL OR e.required_until IS NOT NULL THEN :started
                              ELSE e.required_since END,
        required_until = CASE WHEN NOT found.seen THEN e.required_until WHEN found.decisive IS NOT NULL THEN NULL
                              WHEN e.required_since IS NULL THEN NULL
                              ELSE coalesce(e.required_until, e.rules_read_at) END,
        open_ways = CASE WHEN found.seen THEN found.ways ELSE e.open_ways END,
        rule_requested_at = CASE WHEN NOT found.watched THEN NULL
                                 WHEN found.own_rule THEN coalesce(e.rule_requested_at, :started)
                                 ELSE e.rule_requested_at END,
        ruleset = found.ruleset, integration_pinned = found.pinned, bypass_actors = found.actors,
        merge_queue = found.queue, findings = found.findings,
        verified_at = :started, rules_read_at = CASE WHEN found.seen THEN :started ELSE e.rules_read_at END,
        stop = CASE WHEN NOT found.seen THEN e.stop WHEN found.stops = '{}' THEN NULL ELSE (
            SELECT on_branch.stop_context FROM watched_branches b
            JOIN frozen_branch_rulesets s ON s.repository_id = b.repository_id
            LEFT JOIN organization_stops o ON o.id = s.organization_stop_id
            CROSS JOIN LATERAL (VALUES (s.stop_context, s.stop_written_at), (o.stop_context, o.stop_written_at))
                AS on_branch (stop_context, stop_written_at)
            WHERE b.id = e.branch_id AND on_branch.stop_context = ANY(found.stops)
              AND on_branch.stop_written_at <= :enforced
            ORDER BY on_branch.stop_context <> s.stop_context LIMIT 1) END
    FROM jsonb_to_recordset(:found) AS found (
        branch text, light text, seen boolean, required boolean, own_rule boolean, decisive text, ways text[],
        stops text[], watched boolean, ruleset jsonb, pinned boolean, actors jsonb, queue jsonb, findings jsonb)
    WHERE e.branch_id = found.branch
""").bindparams(bindparam("found", type_=JSONB))


# So that no stop counts which is about to be taken away; before branches are locked, as by those who write rulesets.
_LOCK_STOPS_ABOVE = text("""
    SELECT FROM organization_stops WHERE stop_context IS NOT NULL AND id IN (
        SELECT organization_stop_id FROM frozen_branch_rulesets WHERE repository_id IN (
            SELECT repository_id FROM watched_branches WHERE id = ANY(:branches)))
    ORDER BY id FOR SHARE
""")
_LOCK_STOPS = text("""
    SELECT FROM frozen_branch_rulesets WHERE stop_context IS NOT NULL AND repository_id IN (
        SELECT repository_id FROM watched_branches WHERE id = ANY(:branches))
    ORDER BY repository_id FOR SHARE
""")


def save_results(uow: UnitOfWork, batch: LeasedProbes, probed: Sequence[ProbeResult]) -> None:
    """Save the results for branches of the unit's organisation whose leases still hold.

    Where a branch has got or lost a rule of its own, other heads may or may not show a `success` of its pattern's
    check, which is due. It is locked first, as by everything that changes what is watched.
    """
    if stopped := [each.probe.branch_id for each in probed if each.found.stops]:
        for level in ("organization", "repository"):
            lost = [each.probe.branch_id for each in probed if level in each.found.stops.values()]
            record_lost_stops(uow, lost, batch.started_at, level)
        for statement in (_LOCK_STOPS_ABOVE, _LOCK_STOPS):
            uow.session.execute(statement, {"branches": stopped})
    changed = [each.probe for each in probed if each.own_rule_changed and each.probe.pattern_check_name is not None]
    if changed:
        mark_dirty(uow.session, [probe.branch_id for probe in changed], uow.now)
        uow.wake("reconcile")
    held = {probe.branch_id for probe in batch.held(uow, [each.probe for each in probed])}
    kept = [each for each in probed if each.probe.branch_id in held]
    if kept:
        times = {
            "started": batch.started_at,
            "enforced": batch.started_at - uow.ports[GitHubLimits].ruleset_delay,
        }
        uow.session.execute(_SAVE, {"found": [_row(each) for each in kept], **times})
        batch.lease.release(uow, held)
    for each in kept:
        if each.lost or each.restored:
            _audit(uow, each)
    for each in {
        each.found.ruleset.id: each for each in kept if each.changed_externally and each.found.ruleset
    }.values():
        _audit_change(uow, each)
    _update_alerts(uow, kept)


def _row(each: ProbeResult) -> dict[str, object]:
    found = each.found
    return {
        "branch": each.probe.branch_id,
        "light": found.light,
        "seen": found.seen,
        "required": found.required,
        "own_rule": found.own_rule,
        "decisive": found.decisive_check,
        "ways": list(found.open_ways),
        "stops": list(found.stops),
        "watched": each.probe.watched,
        "ruleset": {**found.ruleset.as_json(), "updated_at": found.ruleset.updated_at} if found.ruleset else None,
        "pinned": found.pinned,
        "actors": None if found.bypass_actors is None else [actor.as_json() for actor in found.bypass_actors],
        "queue": found.merge_queue,
        "findings": [finding.as_json() for finding in found.findings],
    }


def _audit(uow: UnitOfWork, each: ProbeResult) -> None:
    found = each.found
    uow.audit(
        "enforcement.lost" if each.lost else "enforcement.restored",
        _subject(each.probe),
        before={"light": each.probe.light, "findings": [str(finding["code"]) for finding in each.probe.findings]},
        after={
            "light": found.light,
            "findings": [finding.code for finding in found.findings],
            "ruleset": found.ruleset.as_json() if found.ruleset else None,
        },
    )


def _audit_change(uow: UnitOfWork, each: ProbeResult) -> None:
    """Audit that a ruleset was changed, once for all branches of one probe."""
    before, after = (each.probe.ruleset or {}), each.found.ruleset
    if after is not None:
        uow.audit(
            "enforcement.ruleset_changed",
            ("ruleset", str(after.id), after.name),
            before={"light": each.probe.light, "updatedAt": before.get("updated_at")},
            after={"light": each.found.light, "updatedAt": after.updated_at, "ruleset": after.as_json()},
            branch={"id": each.probe.branch_id, "name": _subject(each.probe)[2]},
        )


def _subject(probe: LeasedProbe) -> tuple[str, str, str]:
    return ("branch", probe.branch_id, f"{probe.full_name}:{probe.branch}")


def _update_alerts(uow: UnitOfWork, probed: Collection[ProbeResult]) -> None:
    """Open alerts for what needs attention, and resolve those that do not any more."""
    raised: list[Alert] = []
    cleared: list[str] = []
    for each in probed:
        orphaned = any(finding.code in BLOCKING_REQUIREMENTS for finding in each.found.findings)
        for kind, raises in (
            ("unenforced_branch", each.probe.watched and each.found.light == "red"),
            ("orphaned_requirement", orphaned and not each.probe.watched),
        ):
            if raises:
                raised.append(_alert(uow, kind, each))
            else:
                cleared.append(_key(kind, each.probe))
    open_alerts(uow, raised)
    resolve_alerts(uow, cleared)


def _key(kind: str, probe: LeasedProbe) -> str:
    return f"{kind} {probe.branch_id}"


def _alert(uow: UnitOfWork, kind: str, each: ProbeResult) -> Alert:
    place = f"{each.probe.full_name}:{each.probe.branch}"
    worst = each.found.findings[0].message
    rules = page(uow, *each.probe.full_name.split("/", 1), "rules", ref=f"refs/heads/{each.probe.branch}")
    action = ("Open the branch's rules", rules)
    if kind == "orphaned_requirement":
        return Alert(_key(kind, each.probe), kind, "warning", _subject(each.probe), f"{place}: {worst}", action)
    worst_code = each.found.findings[0].code
    message = f"{place}: {worst}" if worst_code in BLOCKING_REQUIREMENTS else f"Freezes do not block {place}. {worst}"
    return Alert(_key(kind, each.probe), kind, "critical", _subject(each.probe), message, action)


def reschedule_failed(uow: UnitOfWork, batch: LeasedProbes, failed: Sequence[tuple[LeasedProbe, GitHubError]]) -> None:
    """Record which branches could not be read; each is retried after a back-off of its own."""
    for probe, error in sorted(failed, key=lambda pair: pair[0].branch_id):
        due_at = uow.now + backoff(error, probe.attempts)
        batch.lease.fail(uow, error.code, error.message, due_at, keys=[probe.branch_id])

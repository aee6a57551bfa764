"""A freeze of branches that no rule protects is nowhere called enforced, and what lands there bypasses nothing."""

from rules.notifications.kinds import kind_of
from tests.handlers.blocking.claims import ACCEPTED, Frozen
from tests.harness.webhook_queue import full_resync
from tests.jobs.bypass_detection.pushes import Clocks, examine, shown


def test_new_organization_without_rules_is_never_called_enforced(frozen: Frozen) -> None:
    number = frozen.repository(rule=False)
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    frozen.review()
    view = frozen.freeze(freeze_id)
    assert (view["targets"]["applied"], frozen.counts(freeze_id)) == (1, {"unprotected": 1})
    assert (view["enforcedAt"], view["firstEnforcedAt"]) == (None, None)
    assert [(gap["code"], gap["state"]) for gap in view["gaps"]] == [("no_rule", "not_blocked")]
    assert (frozen.target(freeze_id), frozen.pull(number)) == ("not_blocked", "not_blocked")
    assert not frozen.says_enforced()
    assert frozen.gaps() == [("critical", "1 frozen branch is not blocked")]
    assert frozen.audited() == ["freeze.unprotected"]
    assert "freeze.enforced" not in {kind_of(action) for action in frozen.acme.audit()}
    assert frozen.merge(number) == ACCEPTED


def test_merge_that_no_rule_refuses_is_no_bypass(frozen: Frozen, clocks: Clocks) -> None:
    number = frozen.repository(rule=False)
    frozen.settle()
    clocks.pass_by()
    frozen.start()
    clocks.pass_by()
    frozen.settle()
    clocks.pass_by()
    assert frozen.merge(number) == ACCEPTED
    full_resync(frozen.workers)
    examine(frozen.workers)
    assert [action for action, _who, _details in shown(frozen.workers)] == ["freeze.unprotected_change"]

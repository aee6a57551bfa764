"""A freeze of branches that no rule protects is nowhere called enforced, and what lands there bypasses nothing."""

from rules.notifications.kinds import kind_of
from tests.handlers.blocking.claims import ACCEPTED, REFUSED, Frozen
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


def test_partly_blocked_freeze_is_enforced_and_names_its_gaps(frozen: Frozen) -> None:
    number = frozen.repository()
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    view = frozen.freeze(freeze_id)
    assert (view["enforcedAt"] is not None, frozen.says_enforced()) == (True, True)
    assert [(gap["code"], gap["state"], gap["branchCount"]) for gap in view["gaps"]] == [("deletion", "partly", 1)]
    [(details,)] = frozen.workers.sql("SELECT details FROM audit_entries WHERE action = 'freeze.enforced'")
    assert (details["targets"], details["partly"], details["gaps"]) == (1, 1, {"deletion": 1})
    assert frozen.gaps() == [("warning", "1 frozen branch is only partly blocked")]
    assert frozen.merge(number) == REFUSED


def test_freeze_that_loses_its_rule_is_not_shown_as_enforced_any_more(frozen: Frozen) -> None:
    frozen.repository()
    frozen.settle()
    freeze_id = frozen.start()
    frozen.settle()
    first = frozen.freeze(freeze_id)["enforcedAt"]
    assert first is not None
    frozen.workers.sql("UPDATE branch_enforcement SET decisive_check = NULL")  # which nothing has recorded yet
    for _ in range(2):
        view = frozen.freeze(freeze_id)
        assert (view["enforcedAt"], view["firstEnforcedAt"]) == (None, first)
        frozen.review()
    assert frozen.audited() == ["freeze.enforced", "freeze.unprotected"]
    frozen.settle()
    again = frozen.freeze(freeze_id)
    assert (again["firstEnforcedAt"], again["enforcedAt"] > first) == (first, True)


def test_branch_that_is_not_read_is_neither_enforced_nor_reported(frozen: Frozen) -> None:
    frozen.repository()
    freeze_id = frozen.start()
    frozen.workers.run_until_idle()
    frozen.review()
    assert frozen.counts(freeze_id) == {"unknown": 1}
    assert (frozen.freeze(freeze_id)["enforcedAt"], frozen.audited()) == (None, [])
    assert not frozen.says_enforced()

"""While the database counts as restored: nothing is released at GitHub, and everything else goes on."""

import re

import pytest

from app.commands.restore import main
from integrations.github import ErrorKind, GitHubError
from rules.errors import ServiceError
from services.enforcement.setup_runs import apply_due
from services.github_access.failures import WithheldError
from services.github_access.rate_limiter import background_client
from services.restores.restores import confirm_restore
from tests.harness.app_key import AppKey
from tests.harness.github_harness import Builder, Harness
from tests.harness.restores import GRACE, declare_restored, show_and_confirm
from tests.jobs.setup.requests import add, ask, names, work


@pytest.fixture
def restored(harness: Harness, build: Builder) -> Harness:
    """Return a harness with a pull request that is green, and one that is new since the database was restored."""
    build("web", pulls=1)
    harness.run_until_idle()
    declare_restored(harness)
    harness.run_until_idle()
    harness.fake_github.organization("acme").repository("web").pull_request(base="main")
    harness.full_resync()
    return harness


class TestChecks:
    def test_new_pull_request_gets_no_check_until_it_is_confirmed(self, restored: Harness) -> None:
        restored.run_until_idle()
        assert restored.conclusions() == {"acme/web#1": "success", "acme/web#2": None}
        assert restored.merge("acme/web", 2).status_code == 405
        show_and_confirm(restored)
        restored.resync()
        restored.run_until_idle()
        assert restored.conclusions() == {"acme/web#1": "success", "acme/web#2": "success"}

    def test_new_freeze_blocks_at_once_and_its_lift_waits(self, restored: Harness) -> None:
        freeze = restored.freeze()
        restored.run_until_idle()
        assert restored.conclusions() == {"acme/web#1": "failure", "acme/web#2": "failure"}
        [state] = restored.sql("SELECT state, last_error_code FROM freeze_targets")
        assert tuple(state) == ("applied", None)
        restored.lift(freeze)
        restored.run_until_idle()
        assert restored.conclusions() == {"acme/web#1": "failure", "acme/web#2": "failure"}
        columns = "state, last_error_code, next_attempt_at, heads_written, last_error_message"
        [(*target, message)] = restored.sql(f"SELECT {columns} FROM freeze_targets")
        assert target == ["releasing", "maintenance", None, 0]
        assert "restored from a backup" in message
        assert restored.sql("SELECT id FROM freezes WHERE failing_since IS NOT NULL") == []

    def test_branch_that_waits_is_not_tried_again_soon(self, restored: Harness) -> None:
        restored.run_until_idle()
        due = "SELECT count(*) FROM checks WHERE due_at < clock_timestamp() + interval '20 minutes'"
        assert restored.sql(due) == [(0,)]


class TestRules:
    def test_setup_waits_and_goes_on_after_the_confirmation(self, harness: Harness) -> None:
        add(harness, "web")
        ask(harness)
        work_once(harness)  # it has the heads' verdicts written first
        harness.run_until_idle()
        declare_restored(harness)
        work_once(harness)
        assert names(harness.fake_github) == {}
        waiting = "SELECT state, last_error_code, attempts FROM enforcement_setups"
        assert [tuple(row) for row in harness.sql(waiting)] == [("queued", "maintenance", 0)]
        show_and_confirm(harness)
        harness.resync()
        work(harness)
        assert list(names(harness.fake_github)) == ["web"]

    def test_background_job_reads_and_changes_nothing(self, harness: Harness) -> None:
        add(harness, "web")
        [[installation_id]] = harness.sql("SELECT id FROM installations")
        declare_restored(harness)
        access = background_client(harness.jobs, harness.github, installation_id).repository_rulesets("acme", "web")
        assert access.list() == []
        with pytest.raises(WithheldError):
            access.delete(1)


class TestConfirmation:
    def test_confirmation_is_refused_unless_the_list_was_just_shown(self, restored: Harness) -> None:
        for prepare in ("SELECT 1", "UPDATE database_identity SET shown_at = now() - interval '61 minutes'"):
            restored.sql(prepare)
            with pytest.raises(ServiceError, match="restore show") as refused:
                confirm_restore(restored.jobs, by=GRACE)
            assert refused.value.code == "impact_preview_required"

    def test_confirmation_is_refused_where_nothing_was_restored(self, harness: Harness) -> None:
        with pytest.raises(ServiceError, match="no restore") as refused:
            confirm_restore(harness.jobs, by=GRACE)
        assert refused.value.code == "invalid_state"


class TestCommand:
    @pytest.fixture(autouse=True)
    def environment(
        self, harness: Harness, database: str, app_key: AppKey, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        variables = {
            "DATABASE_URL": database,
            "REDIS_URL": redis_url,
            "SECRET_KEY": "a secret of tests",
            "GITHUB_API_URL": harness.base_url,
            "GITHUB_APP_ID": str(harness.fake_github.app_id),
            "GITHUB_APP_PRIVATE_KEY": app_key.private,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    def test_operator_sees_what_would_be_released_and_confirms(
        self, restored: Harness, capsys: pytest.CaptureFixture[str]
    ) -> None:
        restored.freeze()
        restored.run_until_idle()
        restored.sql("UPDATE freezes SET ended_at = now()")
        restored.fake_github.organization("acme").repository("web").pull_request(base="main")
        assert main(["confirm", "--by", GRACE]) == 1
        assert main(["show"]) == 0
        printed = capsys.readouterr()
        described, *lines = printed.out.splitlines()
        assert described.startswith("The database was restored, noticed 20")
        assert "an operator declared it restored. The service last ran on it at 20" in described
        assert [re.sub(" at [0-9a-f]{12} ", " ", line.partition(": ")[2]) for line in lines] == [
            "acme/web#1 into acme/web:main: change-freeze/main says failure and becomes success",
            "acme/web#2 into acme/web:main: change-freeze/main says failure and becomes success",
            "acme/web#3 into acme/web:main: change-freeze/main is missing and becomes success",
        ]
        assert "Confirming releases 3 checks." in printed.err
        assert main(["confirm", "--by", GRACE]) == 0
        restored.resync()
        restored.run_until_idle()
        assert set(restored.conclusions().values()) == {"success"}
        assert main(["show"]) == 0
        assert "There is no restore to confirm" in capsys.readouterr().out

    def test_what_cannot_be_read_at_github_is_named(
        self, restored: Harness, capsys: pytest.CaptureFixture[str]
    ) -> None:
        restored.fake_github.faults.add("error", "graphql query", status=502)
        assert main(["show"]) == 1
        assert "NOT READ: acme: " in capsys.readouterr().out

    def test_declared_restore_has_to_be_confirmed(self, harness: Harness) -> None:
        assert main(["declare"]) == 0
        assert harness.sql("SELECT difference FROM database_identity") == [("an operator declared it restored",)]


def test_withheld_error_is_retried_after_a_person_has_acted() -> None:
    error: GitHubError = WithheldError()
    assert (error.kind, error.code, error.transient) == (ErrorKind.WITHHELD, "maintenance", True)


def work_once(harness: Harness) -> None:
    """Run the setup that is due, heads first."""
    harness.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
    assert apply_due(harness.jobs, harness.github)

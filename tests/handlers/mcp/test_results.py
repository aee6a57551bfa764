"""What tools answer: the time with each result, what other freezes cover, and no text that is not ours."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy.orm import Session

from app.database import Reads
from mcp_server import server
from mcp_server.tools import Tool
from services.freezes import state
from tests import factories
from tests.handlers.callers import EVERYTHING, Tenant
from tests.harness.clock import MovableClock
from tests.harness.mcp_client import McpClient, refusal_of
from tools.mcp_requests import ERAS, Era

SATURDAY_NIGHT = datetime(2026, 7, 4, 22, 30, 15, 250_000, tzinfo=UTC)
IN_TOKYO = {
    "now": "2026-07-04T22:30:15Z",
    "timezone": "Asia/Tokyo",
    "localTime": "2026-07-05T07:30:15+09:00",
    "weekday": "Sunday",
}
each_era = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def tokyo(acme: Tenant, session: Session, clock: MovableClock) -> Tenant:
    """An organisation in another time zone, whose clocks stand still."""
    acme.organization.settings = {"timezone": "Asia/Tokyo"}
    session.flush()
    clock.at = SATURDAY_NIGHT
    return acme


class TestMemory:
    @each_era
    def test_freeze_state_is_answered_from_memory_until_it_changes(
        self, acme: Tenant, session: Session, era: Era, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compute, computed = state.get_state, []

        async def note(*arguments: Any) -> state.State:
            computed.append(arguments)
            return await compute(*arguments)

        monkeypatch.setattr(state, "get_state", note)
        branch = factories.branch(session, acme.repository("web"))
        client = McpClient(acme.connected("viewer", "freeze:read"), era)
        told = [client.call("svc_get_freeze_state", branchId=branch.id).structured["frozen"] for _ in range(3)]
        factories.freeze(session, acme.organization, [branch])
        told.append(client.call("svc_get_freeze_state", branchId=branch.id).structured["frozen"])
        assert (told, len(computed)) == ([False, False, False, True], 2)


class TestClock:
    @each_era
    @pytest.mark.parametrize("tool", ["svc_get_overview", "svc_get_freeze_state", "svc_list_schedules"])
    def test_result_has_the_time_in_utc_and_at_the_organization(self, tokyo: Tenant, era: Era, tool: str) -> None:
        arguments = {"organization": "current"} if tool == "svc_get_freeze_state" else {}
        result = McpClient(tokyo.key(), era).call(tool, **arguments)
        assert result.structured["clock"] == IN_TOKYO

    def test_text_of_a_result_is_its_structured_content(self, tokyo: Tenant) -> None:
        """Some clients show the one to the model, some the other."""
        result = McpClient(tokyo.key()).call("svc_list_freezes")
        assert json.loads(result.text) == result.structured
        assert next(iter(result.structured)) == "clock"

    def test_connected_client_is_told_the_time_of_its_organization(self, tokyo: Tenant) -> None:
        result = McpClient(tokyo.connected("viewer", "freeze:read")).call("svc_list_freezes")
        assert result.structured["clock"] == IN_TOKYO

    def test_organization_without_a_zone_has_utc(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = SATURDAY_NIGHT
        told = McpClient(acme.key()).call("svc_list_freezes").structured["clock"]
        assert (told["now"], told["localTime"]) == ("2026-07-04T22:30:15Z", "2026-07-04T22:30:15+00:00")
        assert (told["timezone"], told["weekday"]) == ("UTC", "Saturday")

    def test_refusal_has_the_time_too(self, tokyo: Tenant) -> None:
        """An agent that gave a time in the past learns there what time it is."""
        past = {**EVERYTHING, "endsAt": "2026-07-04T22:00:00Z"}
        for name, arguments in (("svc_start_freeze", past), ("svc_get_freeze", {}), ("svc_delete_schedule", {})):
            result = McpClient(tokyo.key()).call(name, **arguments)
            assert result.is_error
            assert json.loads(result.text)["clock"] == IN_TOKYO

    def test_result_without_content_has_the_time(self, tokyo: Tenant, session: Session) -> None:
        branch = factories.branch(session, tokyo.repository("web"))
        result = McpClient(tokyo.key()).call("svc_unwatch_branch", branchId=branch.id, confirm=True)
        assert result.structured == {"clock": IN_TOKYO, "done": True}

    def test_tool_does_nothing_without_a_database_to_ask_for_the_zone(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fetch = Reads.fetch

        async def fail(reads: Reads, sql: Any, *given: Any) -> Any:
            if "settings" in sql:
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return await fetch(reads, sql, *given)

        monkeypatch.setattr(Reads, "fetch", fail)
        client = McpClient(acme.key())
        assert client.call("svc_start_freeze", **EVERYTHING).code == "database_unavailable"
        monkeypatch.undo()
        assert client.call("svc_list_freezes").structured["data"] == []

    def test_instructions_say_which_times_are_in_utc(self, acme: Tenant) -> None:
        instructions = McpClient(acme.key()).request("server/discover")["instructions"]
        assert "Times in results are in UTC; those in arguments may have any offset." in instructions
        assert "clock" in instructions


class TestOtherFreezes:
    def test_tool_that_starts_a_freeze_says_what_was_frozen_already(self, acme: Tenant, session: Session) -> None:
        main = factories.branch(session, acme.repository("web"))
        client = McpClient(acme.key())
        first = client.call("svc_start_freeze", **EVERYTHING).structured
        second = client.call("svc_start_freeze", **EVERYTHING).structured
        assert (first["alreadyFrozen"], first["alreadyFrozenCount"]) == ([], 0)
        [branch] = second["alreadyFrozen"]
        assert (branch["branchId"], branch["freezeIds"]) == (main.id, [first["id"]])
        assert second["alreadyFrozenCount"] == 1

    def test_tools_that_lift_a_freeze_say_what_stays_frozen(self, acme: Tenant, session: Session) -> None:
        main = factories.branch(session, acme.repository("web"))
        client = McpClient(acme.key())
        started = [client.call("svc_start_freeze", **EVERYTHING).structured["id"] for _ in range(3)]
        lifted = client.call("svc_end_freeze", freezeId=started[0], confirm=True).structured
        [branch] = lifted["stillFrozen"]
        assert (branch["branchId"], {*branch["freezeIds"]}) == (main.id, {*started[1:]})
        last = client.call("svc_end_freezes", scope={"type": "organization"}, confirm=True).structured
        assert (len(last["data"]), last["stillFrozen"], last["stillFrozenCount"]) == (2, [], 0)

    @pytest.mark.parametrize(
        ("tool", "name", "meaning"),
        [
            ("svc_start_freeze", "alreadyFrozen", "branches that other freezes cover"),
            ("svc_end_freeze", "stillFrozen", "another freeze covers stays frozen"),
            ("svc_end_freezes", "stillFrozen", "another freeze still covers"),
            ("svc_override_freeze", "stillFrozen", "another freeze covers stays frozen"),
        ],
    )
    def test_description_says_what_other_freezes_mean(self, acme: Tenant, tool: str, name: str, meaning: str) -> None:
        description = McpClient(acme.key()).tools()[tool]["description"]
        assert f"`{name}`" in description
        assert meaning in description


class TestUnexpectedErrors:
    SECRET = "connection to db-7.internal failed"

    @each_era
    @pytest.mark.parametrize("request_", [("tools/list", {}), ("tools/call", {"name": "svc_list_freezes"})], ids=repr)
    def test_client_is_not_sent_the_text_of_an_unexpected_error(
        self,
        acme: Tenant,
        era: Era,
        request_: tuple[str, Mapping[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(*_: object, **__: object) -> Any:
            raise RuntimeError(self.SECRET)

        monkeypatch.setattr(Tool, "is_visible_to", fail)
        monkeypatch.setattr(server, "call_application", fail)
        with caplog.at_level(logging.ERROR, "mcp_server"):
            response = McpClient(acme.key(), era).send(*request_)
        assert self.SECRET not in response.text
        error = refusal_of(response)
        assert error["code"] == -32603
        assert error["message"].startswith("Something went wrong on our side.")
        assert self.SECRET in caplog.text

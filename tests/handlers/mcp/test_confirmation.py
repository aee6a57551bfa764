"""Tools that take something away: none does before the person has confirmed it."""

from typing import Any

import pytest

from models.freezes import Freeze
from tests.handlers.callers import Tenant
from tests.harness.mcp_client import McpClient
from tools.mcp_requests import ERAS, Era

ACCEPTED = {"confirm": {"action": "accept", "content": {"confirm": True}}}
CAN_ASK: dict[str, Any] = {"elicitation": {"form": {}}}


def state(acme: Tenant, freeze: Freeze) -> Any:
    return acme.key().get(f"/v1/freezes/{freeze.id}").json()["state"]


@pytest.mark.parametrize("era", ERAS)
class TestWithoutConfirmation:
    @pytest.mark.parametrize("given", [{}, {"confirm": False}, {"confirm": "true"}, {"confirm": 1}, {"confirm": None}])
    def test_freeze_goes_on_without_confirmation(
        self, acme: Tenant, freeze: Freeze, era: Era, given: dict[str, Any]
    ) -> None:
        result = McpClient(acme.key(), era).call("svc_end_freeze", freezeId=freeze.id, **given)
        assert result.code == "missing_parameter"
        assert result.error["details"][0]["path"] == "confirm"
        assert state(acme, freeze) == "in_force"

    def test_freeze_ends_with_confirmation(self, acme: Tenant, freeze: Freeze, era: Era) -> None:
        result = McpClient(acme.key(), era).call("svc_end_freeze", freezeId=freeze.id, confirm=True)
        assert not result.is_error
        assert state(acme, freeze) == "ended"

    def test_other_ending_tools_are_refused_without_confirmation(self, acme: Tenant, freeze: Freeze, era: Era) -> None:
        client = McpClient(acme.key(), era)
        everything = {"scope": {"type": "organization"}}
        assert client.call("svc_end_freezes", **everything).code == "missing_parameter"
        assert client.call("svc_override_freeze", freezeId=freeze.id, reason="Hotfix now").code == "missing_parameter"
        assert client.call("svc_disable_repos", repositories=["acme/web"]).code == "missing_parameter"
        assert state(acme, freeze) == "in_force"


class TestForm:
    """A client that can shows the person a form."""

    def asked(self, acme: Tenant, freeze: Freeze, **params: Any) -> dict[str, Any]:
        client = McpClient(acme.key(), capabilities=CAN_ASK)
        return client.request("tools/call", {"name": "svc_end_freeze", "arguments": {"freezeId": freeze.id}, **params})

    def test_client_that_can_ask_is_given_a_form(self, acme: Tenant, freeze: Freeze) -> None:
        result = self.asked(acme, freeze)
        assert result["resultType"] == "input_required"
        form = result["inputRequests"]["confirm"]["params"]
        assert freeze.id in form["message"]
        assert form["requestedSchema"]["required"] == ["confirm"]
        assert state(acme, freeze) == "in_force"

    def test_freeze_ends_once_the_person_has_confirmed(self, acme: Tenant, freeze: Freeze) -> None:
        shown = self.asked(acme, freeze)["requestState"]
        assert self.asked(acme, freeze, inputResponses=ACCEPTED, requestState=shown)["isError"] is False
        assert state(acme, freeze) == "ended"

    def test_confirmation_is_for_these_arguments_alone(self, acme: Tenant, freeze: Freeze) -> None:
        client = McpClient(acme.key(), capabilities=CAN_ASK)
        harmless = {"name": "svc_end_freeze", "arguments": {"freezeId": "frz_00000000000000000000000000"}}
        shown = client.request("tools/call", harmless)["requestState"]
        for given in ({"requestState": shown}, {}):
            result = self.asked(acme, freeze, inputResponses=ACCEPTED, **given)
            assert result["resultType"] == "input_required"
        assert state(acme, freeze) == "in_force"

    def test_revision_without_forms_takes_no_confirmation_from_one(self, acme: Tenant, freeze: Freeze) -> None:
        shown = self.asked(acme, freeze)["requestState"]
        client = McpClient(acme.key(), "handshake")
        call = {"name": "svc_end_freeze", "arguments": {"freezeId": freeze.id}}
        result = client.request("tools/call", {**call, "inputResponses": ACCEPTED, "requestState": shown})
        assert result["isError"] is True
        assert state(acme, freeze) == "in_force"

    @pytest.mark.parametrize(
        "answer",
        [
            {"action": "accept", "content": {"confirm": False}},
            {"action": "accept"},
            {"action": "decline"},
            {"action": "cancel"},
        ],
        ids=repr,
    )
    def test_freeze_goes_on_if_the_person_has_not_confirmed(
        self, acme: Tenant, freeze: Freeze, answer: dict[str, Any]
    ) -> None:
        shown = self.asked(acme, freeze)["requestState"]
        result = self.asked(acme, freeze, inputResponses={"confirm": answer}, requestState=shown)
        assert result["isError"] is True
        assert "did not confirm" in result["content"][0]["text"]
        assert state(acme, freeze) == "in_force"

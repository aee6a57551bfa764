"""Operations of the tag Device sign-in: RFC 8628."""

from collections.abc import Mapping
from typing import Any

from schemas.contract import load_contract
from schemas.oauth import required, respond
from services.core.unit_of_work import UnitOfWork
from services.identity import devices


def device_code(uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str]) -> object:
    """Start the sign-in of a device."""

    def start(given: Mapping[str, str]) -> object:
        request = devices.DeviceRequest(required(given, "client_id"), given.get("scope"), given.get("resource"))
        return devices.start(uow, request, load_contract().tool_scopes)

    return respond(raw_body, headers, start)


def device_token(uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str]) -> object:
    """Return the state of a device's sign-in, with its tokens once it is approved."""
    wanted = ("grant_type", "device_code", "client_id")
    return respond(
        raw_body, headers, lambda given: devices.exchange_device_code(uow, *(required(given, name) for name in wanted))
    )


def device_lookup(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Return the pending device with a user code."""
    return devices.find_pending(uow, body["user_code"])


def device_approve(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Approve or deny a pending device."""
    decided = devices.decide(
        uow,
        body["user_code"],
        approve=body["decision"] == "approve",
        organization_id=body.get("organization_id"),
        scopes=body.get("scopes"),
    )
    return devices.to_response(decided)

"""Signing a person in by OAuth's device flow (RFC 8628)."""

from collections.abc import Callable
from typing import Any

from change_freeze_cli.api import Api
from change_freeze_cli.errors import RefusedError, UnclearError

CLIENT_ID = "freeze-cli"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_INTERVAL = 5
MAX_INTERVAL = 60


def sign_in(api: Api, show: Callable[[str], None]) -> str:
    """Show the person what to open, wait until they have decided, and return the session token."""
    begun = api.post_form("/api/auth/device/code", client_id=CLIENT_ID)
    device = _object(begun.json)
    if begun.status != 200 or not isinstance(device.get("device_code"), str):
        raise UnclearError(f"{api.url} does not sign in devices: it answers with {begun.status}.")
    show(f"Open {device.get('verification_uri_complete') or device.get('verification_uri')}")
    show(f"and compare the code: {device.get('user_code')}")
    return _token(api, device["device_code"], _seconds(device.get("interval")), _seconds(device.get("expires_in"), 900))


def _token(api: Api, device_code: str, interval: int, lifetime: int) -> str:
    """Poll until the person has decided, for as long as the code is valid, and return the session token."""
    waited = 0
    while waited <= lifetime:
        api.sleep(interval)
        waited += interval
        answer = api.post_form(
            "/api/auth/device/token", client_id=CLIENT_ID, device_code=device_code, grant_type=GRANT_TYPE
        )
        body = _object(answer.json)
        if answer.status == 200 and isinstance(body.get("session_token"), str):
            token: str = body["session_token"]
            return token
        match body.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                interval = min(MAX_INTERVAL, max(interval + 5, _seconds(body.get("interval"))))
            case "access_denied":
                raise RefusedError("The sign-in was denied.")
            case "expired_token":
                break
            case error:
                raise UnclearError(f"The sign-in failed: {error if isinstance(error, str) else answer.status}.")
    raise RefusedError("The code has expired; sign in again.")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: Any, default: int = DEFAULT_INTERVAL) -> int:
    return value if isinstance(value, int) and value > 0 else default

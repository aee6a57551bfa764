"""Operations of the tag Account: what people change of their own account."""

from typing import Any

from rules.access.login_sessions import delete_cookie
from rules.web_addresses import WebOrigin
from schemas.replies import RawReply
from services.core.unit_of_work import UnitOfWork
from services.identity import account_changes
from services.organizations import members


def change_name(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Change the current user's name."""
    return account_changes.change_name(uow, body["name"])


def change_password(uow: UnitOfWork, body: dict[str, Any]) -> None:
    """Set a new password, confirmed by the present one."""
    account_changes.change_password(uow, body["current_password"], body["password"])


def change_email(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Mail a link that confirms a new address."""
    account_changes.request_email_change(uow, body["email"], body["password"])
    return {"email": body["email"]}


def confirm_email(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Change the address to that of a mailed link."""
    return account_changes.confirm_email_change(uow, body["token"])


def sign_out_everywhere(uow: UnitOfWork) -> RawReply:
    """End all sessions and delete the cookie."""
    account_changes.sign_out_everywhere(uow)
    return RawReply(204, {"Set-Cookie": delete_cookie(web_url=uow.ports[WebOrigin].url)}, b"")


def leave_organization(uow: UnitOfWork) -> None:
    """End the current user's membership of the active organisation."""
    members.leave(uow)

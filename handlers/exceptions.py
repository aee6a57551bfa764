"""Operations of the tag Exceptions."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions import deciding, granting, requesting, revoking, views
from services.pull_request_exceptions.covering import Wanted
from services.pull_request_exceptions.listing import ExceptionFilters
from services.pull_request_exceptions.listing import list_exceptions as page_of_exceptions


def list_exceptions(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List exceptions and requests, the newest first."""
    return page_of_exceptions(uow, "list_exceptions", ExceptionFilters(**filters), cursor, limit)


def create_exception(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Let a pull request merge during the freezes that cover it."""
    rows = granting.grant(uow, body["pull_request"], body.get("repo"), _wanted(body))
    return {"data": views.views(uow, rows)}


def get_exception(uow: UnitOfWork, exception_id: str) -> object:
    """Get an exception, or a request, in whatever state."""
    return views.show(uow, exception_id)


def revoke_exception(uow: UnitOfWork, exception_id: str, body: dict[str, Any] | None) -> object:
    """End what is open of an exception's group."""
    return {"data": views.views(uow, revoking.revoke(uow, exception_id, (body or {}).get("reason")))}


def list_exception_requests(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the requests that wait for a decision, the newest first."""
    pending = ExceptionFilters(state="pending", **filters)
    return page_of_exceptions(uow, "list_exception_requests", pending, cursor, limit)


def create_exception_request(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Ask for exceptions from the freezes that cover a pull request."""
    rows = requesting.request(uow, body["pull_request"], body.get("repo"), _wanted(body))
    return {"data": views.views(uow, rows)}


def decide_exception_request(uow: UnitOfWork, exception_id: str, body: dict[str, Any]) -> object:
    """Grant or deny what is pending of a request's group."""
    decision = deciding.Decision(
        granted=body["decision"] == "grant",
        reason=body.get("reason"),
        expires_at=body.get("expires_at", ...),
        pin_to_head=body.get("pin_to_head"),
        only_this=body["only_this"],
    )
    return {"data": views.views(uow, deciding.decide(uow, exception_id, decision))}


def _wanted(body: dict[str, Any]) -> Wanted:
    return Wanted(body["reason"], body.get("expires_at"), body.get("pin_to_head"))

"""Operations of the tag Exceptions."""

from typing import Any

from handlers.entity_tags import tagged
from models.exception_rules import ExceptionRule
from schemas.replies import HeadedReply
from services.core import lookups
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.exception_rules import changes as rule_changes
from services.exception_rules import drafts
from services.exception_rules import views as rule_views
from services.pull_request_exceptions import decisions, requests, views
from services.pull_request_exceptions.decisions import ExceptionDecision
from services.pull_request_exceptions.requests import ExceptionInput
from services.pull_request_exceptions.views import ExceptionFilters


def list_exceptions(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List exceptions and requests, newest first."""
    return views.list_exceptions(uow, "list_exceptions", ExceptionFilters(**filters), cursor, limit)


def create_exception(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Grant exceptions from the freezes that cover a pull request."""
    made = decisions.grant(uow, body["pull_request"], body.get("repo"), _input(body))
    return {"data": views.views_of_made(uow, made)}


def get_exception(uow: UnitOfWork, exception_id: str) -> object:
    """Get an exception or a request in any state."""
    return views.show(uow, exception_id)


def revoke_exception(uow: UnitOfWork, exception_id: str, body: dict[str, Any] | None) -> object:
    """Revoke all open exceptions of a group."""
    return {"data": views.views(uow, decisions.revoke(uow, exception_id, (body or {}).get("reason")))}


def list_exception_requests(uow: UnitOfWork, limit: int, cursor: str | None, **filters: Any) -> Page:
    """List the pending requests, newest first."""
    pending = ExceptionFilters(state="pending", **filters)
    return views.list_exceptions(uow, "list_exception_requests", pending, cursor, limit)


def create_exception_request(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Request exceptions from the freezes that cover a pull request."""
    made = requests.request(uow, body["pull_request"], body.get("repo"), _input(body))
    return {"data": views.views_of_made(uow, made)}


def decide_exception_request(uow: UnitOfWork, exception_id: str, body: dict[str, Any]) -> object:
    """Grant or deny the pending requests of a group."""
    decision = ExceptionDecision(
        granted=body["decision"] == "grant",
        reason=body.get("reason"),
        expires_at=body.get("expires_at", ...),
        pin_to_head=body.get("pin_to_head"),
        only_this=body["only_this"],
    )
    return {"data": views.views(uow, decisions.decide(uow, exception_id, decision))}


def list_exception_rules(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List rules, newest first."""
    return rule_views.list_rules(uow, cursor, limit)


def create_exception_rule(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Create a rule."""
    return _rule(uow, rule_changes.create(uow, rule_changes.NewRule(**body)))


def preview_exception_rule(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Preview a draft of a rule."""
    return drafts.preview_draft(uow, body)


def get_exception_rule(uow: UnitOfWork, rule_id: str) -> object:
    """Get a rule."""
    return _rule(uow, lookups.get_exception_rule(uow, rule_id))


def update_exception_rule(uow: UnitOfWork, rule_id: str, body: dict[str, Any], if_match: str | None) -> object:
    """Change a rule."""
    return _rule(uow, rule_changes.change(uow, rule_id, body, if_match))


def delete_exception_rule(uow: UnitOfWork, rule_id: str, if_match: str | None) -> None:
    """Delete a rule."""
    rule_changes.delete(uow, rule_id, if_match)


def _rule(uow: UnitOfWork, rule: ExceptionRule) -> HeadedReply:
    """Return a rule as it is shown, with an entity tag that its use does not change."""
    return tagged(rule_views.view(uow, rule), **rule_views.use_of(uow, rule)._asdict())


def _input(body: dict[str, Any]) -> ExceptionInput:
    return ExceptionInput(body["reason"], body.get("expires_at"), body.get("pin_to_head"))

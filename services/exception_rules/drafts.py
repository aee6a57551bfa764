"""Drafts of rules: what one that is not saved would let in now, as clients see it."""

from collections.abc import Mapping
from typing import Any

from rules.exceptions.evaluation import Evaluation
from rules.exceptions.facts import Unknown
from rules.exceptions.language import Identities
from services.core.lookups import get_organization_settings
from services.core.unit_of_work import UnitOfWork
from services.exception_rules.preview import preview
from services.exception_rules.validation import check
from services.exception_rules.views import identity_views
from services.repositories.tracked_pull_requests import TrackedPullRequest


def preview_draft(uow: UnitOfWork, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return which open pull requests a draft would let in; it may have what a creation takes.

    Raise the errors of `check`, and those of GitHub that concern a whole installation.
    """
    wanted = {name: given[name] for name in ("applies_to", "allow")}
    identities = check(uow, wanted, draft=True) or Identities()
    self_approval = get_organization_settings(uow).self_approval
    found = preview(uow, given["applies_to"]["scope"], given["allow"], identities, self_approval=self_approval)
    shown = [_judged(one, result) for one, result in found.judged]
    return {
        "open_pull_request_count": found.total,
        "judged_count": len(shown),
        "let_in_count": sum(1 for one in shown if one["outcome"] == "met"),
        "identities": identity_views(identities),
        "pull_requests": shown,
    }


def _judged(one: TrackedPullRequest, result: Evaluation | Unknown) -> dict[str, Any]:
    known = isinstance(result, Evaluation) and result.outcome != "open"
    return {
        "pull_request": {
            "id": one.pull.id,
            "repository": one.repository.full_name,
            "number": one.pull.number,
            "url": one.pull.url,
            "title": one.pull.title,
        },
        "base_branch": one.pull.base_branch,
        "author": one.pull.author,
        "outcome": result.outcome if isinstance(result, Evaluation) and known else "unknown",
        "unknown": result.why if isinstance(result, Unknown) else None,
        "conditions": result.conditions if isinstance(result, Evaluation) else [],
    }

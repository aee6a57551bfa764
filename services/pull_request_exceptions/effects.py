"""Whether a granted exception really lets its pull request merge now, and why not."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from models.exception_queries import standing
from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from rules.freezes.pull_request_exceptions import Effect, IneffectiveReason, ineffective_reason
from services.core.unit_of_work import UnitOfWork
from services.pull_requests import views
from services.repositories.tracked_pull_requests import tracked as tracked_pulls


def reasons_against(
    uow: UnitOfWork, rows: Sequence[PullRequestException], pull_of: Mapping[str, PullRequest]
) -> dict[str, IneffectiveReason | None]:
    """Return, by id, why granted exceptions have no effect; None where they have. Four queries, however many."""
    ids = {row.pull_request_id for row in rows}
    tracked = {view["id"]: view for view in views.views(uow, tracked_pulls(uow, ids))} if ids else {}
    excepted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for held in standing(uow.session, ids, uow.now):
        if held.holds_for(pull_of[held.pull_request_id].head_sha):
            excepted[held.pull_request_id, held.branch_id].add(held.freeze_id)
    reasons = {}
    for row in rows:
        pull, view = pull_of[row.pull_request_id], tracked.get(row.pull_request_id)
        covering, passed = set(view["freeze_ids"]) if view else set(), excepted[row.pull_request_id, row.branch_id]
        allowed = view is not None and view["verdict"] == "allowed"
        effect = Effect(
            open=pull.state == "open",
            on_its_base=view is not None and view["branch_id"] == row.branch_id,
            on_its_head=not row.pin_to_head or row.head_sha == pull.head_sha,
            covering=covering,
            excepted=passed,
            sharing_blocked=covering <= passed and not allowed,
            written=view is not None and view["check"]["state"] == "written",
        )
        reasons[row.id] = ineffective_reason(effect)
    return reasons

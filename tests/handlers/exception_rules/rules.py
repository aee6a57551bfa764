"""Requests about rules of exceptions in tests."""

from typing import Any

from sqlalchemy.orm import Session

from models.repositories import Repository
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered
from tools.fake_github.model.records import PullRequest

RULES = "/v1/exception-rules"
DOCS = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
SMALL = {"changedLines": {"atMost": 200}}
EVERYWHERE = {"scope": {"type": "organization"}, "freezes": "all"}
WANTED = {
    "name": "Documentation only",
    "reason": "Documentation is not part of the release",
    "appliesTo": EVERYWHERE,
    "allow": {"all": [DOCS, SMALL]},
    "limits": {"perFreeze": 20},
}


def new_rule(caller: Caller, **body: Any) -> dict[str, Any]:
    return answered(caller.post(RULES, {**WANTED, **body}), 201)


def path_of(rule: dict[str, Any]) -> str:
    return f"{RULES}/{rule['id']}"


def writable(rule: dict[str, Any]) -> dict[str, Any]:
    """Return what of a rule as it is shown can be sent."""
    return {name: rule[name] for name in ("name", "enabled", "reason", "appliesTo", "allow", "limits")}


def opened(acme: Tenant, session: Session, of: Repository, path: str, **columns: Any) -> PullRequest:
    """Open a pull request that changes one file, at GitHub and here."""
    builder = acme.host.organization("acme").repository(of.name)
    pull = builder.pull_request("main", title=f"Change {path}")
    commit = builder.record.commits[pull.head_sha]
    commit.files = {path: "eA=="}
    given = {"title": pull.title, "head_sha": pull.head_sha, "node_id": pull.node_id, "head_since": factories.now()}
    factories.pull_request(session, of, pull.number, **given | columns)
    return pull

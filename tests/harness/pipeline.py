"""A pipeline with an API key: it lets pull requests pass freezes, and takes that back."""

from contextlib import AbstractContextManager
from datetime import timedelta

from rules.access.permissions import Actor
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions import decisions
from services.pull_request_exceptions.requests import ExceptionInput
from tests.harness.github_harness import Harness

PIPELINE = Actor("api_key", "key_pipeline", "pipeline")


def by_pipeline(harness: Harness) -> AbstractContextManager[UnitOfWork]:
    """Open a unit of work of the pipeline."""
    return harness.unit(PIPELINE, "api")


def let_pass(harness: Harness, reference: str, *, minutes: int | None = None, pin: bool = True) -> None:
    """Grant a pull request exceptions from all freezes that cover it, for some `minutes` or without an end."""
    with by_pipeline(harness) as uow:
        until = uow.now + timedelta(minutes=minutes) if minutes else None
        decisions.grant(uow, reference, None, ExceptionInput("The hotfix that has to go in", until, pin))


def revoke(harness: Harness, exception_id: str) -> None:
    """Revoke an exception."""
    with by_pipeline(harness) as uow:
        decisions.revoke(uow, exception_id, None)

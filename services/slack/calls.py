"""Slack's client for services that answer a request."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from integrations.slack import Slack, SlackError
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork

logger = logging.getLogger(__name__)


def slack_of(uow: UnitOfWork) -> Slack:
    """Return the process's client; raise `slack_unavailable` if none is configured."""
    slack = uow.ports.find(Slack)
    if slack is None:
        raise ServiceError("slack_unavailable", "Slack cannot be connected here: SLACK_CLIENT_ID is not set.")
    return slack


@contextmanager
def calling_slack(uow: UnitOfWork) -> Iterator[None]:
    """Run calls of Slack outside of the transaction; raise `slack_unavailable` if Slack refuses or does not respond."""
    with uow.outside_transaction():
        try:
            yield
        except SlackError as error:
            logger.warning("a call of Slack failed: %s", error)
            message = f"Slack did not accept the request ({error.code}). Nothing was changed: start again."
            raise ServiceError("slack_unavailable", message) from error

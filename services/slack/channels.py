"""The channels of the connected workspace, found by name.

Slack has no search: pages of channels are read and compared here, a few in one request. Slack leaves archived channels
out of a page after it has counted them, so a page may be empty while others follow.
"""

import logging

from integrations.slack import Slack, SlackError, SlackScopeError, SlackTokenError, SlackUnavailableError
from integrations.slack.client import CHANNELS_SCOPE, PRIVATE_CHANNELS_SCOPE, SlackChannel
from models.slack import SlackConnection
from rules.errors import ServiceError
from services.core.pagination import Page, read_cursor, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.slack.calls import slack_of
from services.slack.connections import find_connection
from services.slack.tokens import access_token_of

logger = logging.getLogger(__name__)

MAX_CALLS = 3
"""Of Slack in one request; it allows about 20 a minute in a workspace."""
_BY_ADDRESS = "Until then, name a channel by its address."


def list_channels(uow: UnitOfWork, q: str | None, cursor: str | None, limit: int) -> Page:
    """Return a page of the channels that have `q` in their name, in Slack's order.

    A page may have fewer than `limit`, or none, while others follow. Raise `invalid_state` if no workspace is
    connected or the app may not list its channels, `slack_unavailable`, and `invalid_cursor`.
    """
    wanted = (q or "").strip().removeprefix("#").casefold()
    secrets, bound = uow.ports[CursorSecret].accepted, ("list_slack_channels", uow.organization, wanted)
    skip, after = (0, "") if cursor is None else read_cursor(secrets, bound, cursor)
    slack = slack_of(uow)
    connection = find_connection(uow)
    if connection is None or connection.lost_at is not None:
        raise ServiceError("invalid_state", "No Slack workspace is connected.")
    if CHANNELS_SCOPE not in connection.scopes:
        raise _without_permission(connection.team_name, CHANNELS_SCOPE)
    team, private, token = connection.team_name, PRIVATE_CHANNELS_SCOPE in connection.scopes, _token(uow, connection)
    with uow.outside_transaction():
        try:
            found, position = _find(slack, token, wanted, (skip, after), limit, private=private)
        except SlackError as error:
            logger.warning("the channels of a workspace were not listed: %s", error)
            raise _refusal(error, team) from error
    shown = [{"id": each.id, "name": each.name, "private": each.is_private} for each in found]
    return Page(shown, None if position is None else sign_cursor(secrets, bound, position))


def _find(
    slack: Slack, token: str, wanted: str, position: tuple[int, str], limit: int, *, private: bool
) -> tuple[list[SlackChannel], tuple[int, str] | None]:
    """Return channels with `wanted` in their name, and where the next ones are; None after the last one.

    A position is how many matching channels to leave out after a cursor of Slack, and that cursor. Raise the SlackError
    of the first call; if a later one fails for now, what was found is returned, and the search goes on from there.
    """
    skip, after = position
    found: list[SlackChannel] = []
    for number in range(MAX_CALLS):
        try:
            page = slack.list_channels(token, after, private=private)
        except SlackUnavailableError:
            if number == 0:
                raise
            break
        matching = [each for each in page.channels if wanted in each.name.casefold()][skip:]
        missing = limit - len(found)
        found += matching[:missing]
        if len(matching) > missing:
            return found, (skip + missing, after)
        skip, after = 0, page.next_cursor
        if not after:
            return found, None
    return found, (skip, after)


def _token(uow: UnitOfWork, connection: SlackConnection) -> str:
    token = access_token_of(uow, connection)
    if token is None:
        raise _without_token(connection.team_name)
    return token


def _refusal(error: SlackError, team: str) -> ServiceError:
    if isinstance(error, SlackScopeError):
        return _without_permission(team, error.needed or CHANNELS_SCOPE)
    if isinstance(error, SlackTokenError):
        return _without_token(team)
    wait = error.retry_after if isinstance(error, SlackUnavailableError) else None
    if error.code == "ratelimited":
        when = f"in {wait:.0f} seconds" if wait else "in a minute"
        message = f"Slack lists channels only a few times a minute. Try again {when}."
    else:
        message = f"Slack did not list the channels ({error.code}). Try again."
    return ServiceError("slack_unavailable", message)


def _without_permission(team: str, scope: str) -> ServiceError:
    message = f"The Slack app may not list the channels of {team}: it lacks {scope}. Install it again. {_BY_ADDRESS}"
    return ServiceError("invalid_state", message)


def _without_token(team: str) -> ServiceError:
    return ServiceError("invalid_state", f"Slack no longer accepts the app's token in {team}. Install the app again.")

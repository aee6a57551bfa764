"""Mounts the Slack app: it verifies requests of Slack, and gives the app its workspaces and the operations."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson

from app.edge.operation import Edge
from app.edge.request_context import IDENTITY, RequestContext
from app.edge.retries import retry_on_serialization_failure
from app.edge.worker_threads import Workers
from integrations.slack import Slack, SlackError
from integrations.slack.client import MAX_CONCURRENT_CALLS
from integrations.slack.signatures import verify
from models.slack import SlackConnection
from rules.access.permissions import ANONYMOUS
from rules.errors import ServiceError
from rules.slack.blocks import Message
from rules.slack.forms import Form
from rules.slack.payloads import SlackPerson, read_payload
from rules.web_addresses import WebOrigin
from schemas.calls import REQUEST_ID, Application
from schemas.replies import RawReply
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.slack.connections import enter_workspace
from services.slack.events import handle_event
from services.slack.links import issue_link
from services.slack.notices import redraw
from services.slack.tokens import access_token_of
from slack_app.app import SlackApp
from slack_app.ports import Access, NoAccess

logger = logging.getLogger(__name__)

RESPONSE_TIMEOUT = 1.0
"""Seconds that the answer to a click waits for what is shown to the person; Slack expects the answer within three."""
_SLACK = Caller(None, ANONYMOUS, "slack")
_JSON = {"content-type": "application/json"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatabaseWorkspaces:
    """Workspaces of the database, and calls of Slack in threads of their own."""

    edge: Edge
    slack: Slack
    threads: Workers
    running: set[asyncio.Task[None]]

    async def find(self, person: SlackPerson) -> Access | NoAccess:
        """Return how calls act for a Slack user; or why they cannot."""
        identity = await self.edge.credentials.identify_slack_user(person.team_id, person.user_id)
        if isinstance(identity, str):
            return identity

        def authenticate(scope: dict[str, Any]) -> None:
            scope[IDENTITY] = identity

        return Access(identity.principal.organization_id or "", authenticate)

    async def issue_link(self, person: SlackPerson, name: str) -> str:
        """Return a one-time address at which a Slack user is linked to a person."""
        return await self._in_workspace(
            person.team_id, lambda uow, workspace: issue_link(uow, workspace, person.user_id, name)
        )

    async def take_event(self, body: Mapping[str, Any]) -> None:
        """Record what an event says."""
        await self._run(lambda uow: handle_event(uow, dict(body)))

    async def open_form(self, person: SlackPerson, trigger_id: str, form: Form) -> bool:
        """Open a form; False if Slack did not."""
        token = await self._in_workspace(person.team_id, access_token_of)
        if token is None:
            return False
        try:
            await self.threads.run(lambda: self.slack.open_view(token, trigger_id, form))
        except SlackError as error:
            logger.warning("slack: a form was not opened: %s", error.code)
            return False
        return True

    async def respond(self, response_url: str, message: Message) -> None:
        """Show a message to the person who clicked; a Slack that hangs delays the answer to the click no longer."""
        task = asyncio.create_task(self._respond(response_url, message))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        await asyncio.wait({task}, timeout=RESPONSE_TIMEOUT)

    async def _respond(self, response_url: str, message: Message) -> None:
        content = {"response_type": "ephemeral", "replace_original": False, **message.as_json()}
        try:
            await self.threads.run(lambda: self.slack.respond(response_url, content))
        except (SlackError, ServiceError) as error:
            logger.warning("slack: a person was not shown an answer: %s", error.code)

    async def redraw(self, person: SlackPerson, subject_id: str) -> None:
        """Have all messages about a freeze or an exception updated, so that they show it as it is now."""
        await self._in_workspace(person.team_id, lambda uow, _: redraw(uow, subject_id))

    async def _in_workspace(self, team_id: str, work: Callable[[UnitOfWork, SlackConnection], T]) -> T:
        """Run work in the organisation of a workspace. Raise `not_found` if it is not connected."""

        def enter(uow: UnitOfWork) -> T:
            connection = enter_workspace(uow, team_id)
            if connection is None:
                raise ServiceError("not_found", "The workspace is not connected.")
            return work(uow, connection)

        return await self._run(enter)

    async def _run(self, work: Callable[[UnitOfWork], T]) -> T:
        """Run work in a unit of work, in a thread for the database."""
        uow_factory: UnitOfWorkFactory = self.edge.uow_factories["organization"]

        def attempt() -> T:
            with uow_factory.open(_SLACK) as uow:
                return work(uow)

        return await self.edge.workers["organization"].run(lambda: retry_on_serialization_failure(attempt))


class MountedSlack:
    """Answers `POST /webhooks/slack`."""

    def __init__(self, edge: Edge, application: Application, slack: Slack | None) -> None:
        self._slack = slack
        self._clock = edge.uow_factories["organization"].clock
        self._threads = Workers(MAX_CONCURRENT_CALLS, name="slack")
        self._running: set[asyncio.Task[None]] = set()
        self._app = None
        if slack is not None:
            workspaces = DatabaseWorkspaces(edge, slack, self._threads, self._running)
            web_url = edge.uow_factories["organization"].ports[WebOrigin].url
            self._app = SlackApp(edge.contract, application, workspaces, web_url)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Answer requests until the end of the process."""
        yield
        if self._running:
            await asyncio.wait(self._running)
        self._threads.close()

    async def receive(self, request: RequestContext, raw_body: bytes) -> object:
        """Return the answer. Raise `invalid_signature` unless Slack has signed these bytes, and `malformed_json`."""
        app = self._app
        if app is None or not self._is_signed(request, raw_body):
            raise ServiceError("invalid_signature", "X-Slack-Signature does not match the request body.")
        content_type = (request.header(b"content-type") or b"").decode("latin-1")
        try:
            payload = read_payload(raw_body, content_type)
        except ValueError:
            raise ServiceError("malformed_json", "The body is none of Slack's payloads.") from None
        outer = {**request.scope, REQUEST_ID: request.request_id}
        answer = await app.receive(payload, outer)
        return RawReply(200, {}, b"") if answer is None else RawReply(200, _JSON, orjson.dumps(answer))

    def _is_signed(self, request: RequestContext, raw_body: bytes) -> bool:
        stamp, signature = (
            None if value is None else value.decode("latin-1")
            for value in (request.header(b"x-slack-request-timestamp"), request.header(b"x-slack-signature"))
        )
        secrets = () if self._slack is None else self._slack.settings.signing_secrets
        return verify(secrets, raw_body, stamp, signature, self._clock.read(datetime.now(UTC)))


def mount_slack(edge: Edge, application: Application) -> MountedSlack:
    """Return the Slack app, which calls the operations of the application."""
    return MountedSlack(edge, application, edge.uow_factories["organization"].ports.find(Slack))

"""Two processes of the API with memories of their own, and an organisation that they are asked about."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from app.config import Config
from app.main import create_app
from models.enforcement import BranchEnforcement
from models.freezes import Freeze
from models.installations import Installation
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from models.schedules import Occurrence
from services.compatibility import branches
from services.freezes import state
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.in_process import in_process
from tests.harness.product import product_parts

HOUR = timedelta(hours=1)
CLASSIC = ("acme/web/main", "acme/web/dev", "acme/api/main", "acme/web/new")
COMPUTED = Counter[str]()
"""How many states were computed."""


@dataclass
class Setting:
    """An organisation: one branch is frozen, one by a window that is due, one not; another window is planned."""

    session: Session
    organization: Organization
    installation: Installation
    key: str
    web: Repository
    main: WatchedBranch
    dev: WatchedBranch
    api: WatchedBranch
    freeze: Freeze
    rules: BranchEnforcement
    due: Occurrence
    planned: Occurrence

    def values(self) -> dict[str, Any]:
        """Return the ids of its rows by name."""
        rows = {name: getattr(self, name) for name in ("organization", "installation", "web", "main", "dev", "api")}
        rows |= {"freeze": self.freeze, "due": self.due, "planned": self.planned}
        return {name: row.id for name, row in rows.items()} | {"schedule": self.due.schedule_id}


def make_setting(session: Session) -> Setting:
    """Add the organisation."""
    acme = factories.organization(session, plan="business")
    installation = factories.installation(session, acme)
    web, api = factories.repository(session, acme, "acme/web"), factories.repository(session, acme, "acme/api")
    main, dev, of_api = (factories.branch(session, *of) for of in ((web,), (web, "dev"), (api,)))
    frozen = factories.freeze(session, acme, [main], ends_at=factories.now() + 2 * HOUR)
    rules = factories.branch_enforcement(session, main)
    scope = {"type": "repositories", "repositories": ["acme/api"]}
    due = factories.schedule(session, acme, scope=scope)
    began = factories.now() - timedelta(minutes=1)
    return Setting(
        session=session,
        organization=acme,
        installation=installation,
        key=factories.api_key(session, acme).secret,
        web=web,
        main=main,
        dev=dev,
        api=of_api,
        freeze=frozen,
        rules=rules,
        due=factories.occurrence(session, due, starts_at=began, ends_at=factories.now() + HOUR),
        planned=factories.occurrence(session, factories.schedule(session, acme)),
    )


@dataclass
class Processes:
    """Two processes, and what they are asked."""

    clients: list[httpx.Client]
    setting: Setting

    def ask(self, client: httpx.Client, **headers: str) -> list[Any]:
        """Return the answers of one process to every question, or the codes of refusals."""
        questions = [
            {"repo": "acme/web", "branch": "main"},
            {"repo": "acme/web"},
            {"repo": "ACME/API", "branch": "main"},
            {"branchId": self.setting.main.id},
            {"branchId": self.setting.dev.id},
            {"organization": "current"},
            {"repo": "acme/nowhere", "branch": "main"},
            {"repo": "acme/web", "branch": "new"},
        ]
        given = {"Authorization": f"Bearer {self.setting.key}", **headers}
        answers = [client.get("/v1/freeze-state", params=one, headers=given) for one in questions]
        answers += [self._ask_as_classic_client(client, branch, **headers) for branch in CLASSIC]
        assert {answer.status_code for answer in answers} <= {200, 404}
        return [self._said(answer) for answer in answers]

    def _ask_as_classic_client(self, client: httpx.Client, branch: str, **headers: str) -> httpx.Response:
        token = {"access_token": self.setting.key}
        return client.get(f"/api/compat/v1/branches/{branch}/", params=token, headers=headers)

    def _said(self, answer: httpx.Response) -> Any:
        """Return the code of a refusal, or the body without the instant at which it was computed."""
        body = answer.json()
        if answer.status_code == 200:
            return {**body, "last_updated": None}
        return body["code"] if "code" in body else body["error"]["code"]

    def agree(self) -> list[Any]:
        """Return what queries say; fail unless both processes say the same.

        A request that names the type of a body is answered by a query.
        """
        said = [self.ask(client) for client in self.clients]
        judged = self.ask(self.clients[0], **{"Content-Type": "text/plain"})
        assert said == [judged, judged]
        return judged

    def remember(self) -> list[Any]:
        """Have both processes remember every answer, and return the answers; states are counted from now on."""
        answers, others = (self.ask(client) for client in self.clients)
        assert answers == others
        COMPUTED.clear()
        return answers


@contextmanager
def two_processes(config: Config, clock: MovableClock) -> Iterator[list[httpx.Client]]:
    """Run two processes whose computations are counted."""
    compute, show = state.get_state, branches.show

    async def count(*arguments: Any) -> state.State:
        COMPUTED["states"] += 1
        return await compute(*arguments)

    async def count_shown(*arguments: Any) -> Any:
        COMPUTED["classic"] += 1
        return await show(*arguments)

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(state, "get_state", count)
        patch.setattr(branches, "show", count_shown)
        apps = [create_app(config, product_parts(clock=clock)) for _ in range(2)]
        yield [stack.enter_context(in_process(app)) for app in apps]

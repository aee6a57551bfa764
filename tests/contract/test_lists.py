"""Pages and cursors of every list that the contract has, each with several rows.

In which order a list is, and what its filters find, is in the tests of its operations.
"""

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from typing import Any, NamedTuple

import httpx
import pytest
from redis import Redis
from sqlalchemy.orm import Session

from app.main import create_app
from models.repositories import RemoteBranchList
from models.stripe import StripeCatalogue, StripePrice
from schemas.contract import Operation, load_contract
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.contract.isolation.object_references import NAMES_SOMETHING
from tests.harness.accounts import code
from tests.harness.contract_assertions import assert_conforms
from tests.harness.in_process import in_process
from tests.harness.product import product_config, product_parts
from tests.harness.sessions import committing
from tests.harness.tenant_fixtures import TenantFixture, make_tenant_fixture
from tests.harness.wakeups import RecordedWakeups

LISTS = {
    one.id: one
    for one in load_contract().operations.values()
    if any(each.name == "cursor" for each in one.parameters) and one.id != "list_slack_channels"
}
"""By operation; the channels are Slack's, in pages of its own: see `tests/handlers/slack`."""
MADE = 3
"""How many rows each list gets."""
each_list = pytest.mark.parametrize("operation", LISTS.values(), ids=LISTS)


class Reader(NamedTuple):
    """A reader of lists: the owner of an organisation that has several rows of every kind."""

    http: httpx.Client
    fixture: TenantFixture
    session_token: str

    def get(self, operation: Operation, **params: Any) -> httpx.Response:
        path = operation.path
        for parameter in operation.parameters:
            if parameter.location == "path":
                own = self.fixture.names(parameter.name)[0][0]
                path = path.replace("{" + parameter.name + "}", own)
        by_sign_in = operation.accepts("SessionToken")
        credential = self.session_token if by_sign_in else self.fixture.credential(operation)
        headers = {"Authorization": f"Bearer {credential}"} if operation.security else {}
        answer = self.http.get(path, params=params, headers=headers)
        assert_conforms(operation.id, answer)
        return answer

    def page(self, operation: Operation, **params: Any) -> dict[str, Any]:
        answer = self.get(operation, **params)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    def pages(self, operation: Operation, limit: int) -> list[list[Any]]:
        """Return what the pages of a list hold, to its end."""
        page = self.page(operation, limit=limit)
        found = [page["data"]]
        while page["nextCursor"] is not None:
            page = self.page(operation, limit=limit, cursor=page["nextCursor"])
            found.append(page["data"])
        return found


def add_rows(session: Session, of: TenantFixture) -> None:
    """Add rows to every list of an organisation; those of an instant are ordered by their ids."""
    organization, owner, now = of.organization, of.owner, factories.now()
    owner.email_verified_at = now
    for number in range(1, MADE + 1):
        repository = factories.repository(session, organization, f"{of.repository.owner}/more-{number}", created_at=now)
        for covered in (
            factories.branch(session, of.repository, f"release/{number}", created_at=now),
            factories.branch(session, repository, created_at=now),
        ):
            factories.target(session, of.freeze, covered)
            factories.branch_enforcement(session, covered, "red")
        pull = factories.pull_request(session, of.repository, 10 + number)
        factories.exception(session, of.freeze, pull, of.branch, decision=None, decided_by=None, decided_at=None)
        factories.freeze(session, organization, [of.branch], started_at=now)
        schedule = factories.schedule(session, organization, created_at=now)
        factories.occurrence(session, schedule, starts_at=now + timedelta(hours=1))
        factories.exception_rule(session, organization)
        factories.api_key(session, organization, created_at=now - timedelta(days=9), expires_at=now + timedelta(days=1))
        factories.calendar_import(session, organization)
        factories.calendar_feed(session, owner, organization)
        factories.slack_subscription(session, organization, channel_id=f"C{number}")
        factories.webhook(session, organization)
        factories.webhook_message(session, of.webhook)
        factories.member(session, organization)
        factories.login(session, owner, organization, token_hash=token_hash(new_session_token()))
        factories.connection(session, owner, organization)
        elsewhere = factories.organization(session, "Elsewhere")
        factories.membership(session, elsewhere, owner)
        waiting = factories.organization(session, "Waiting")
        factories.invitation(session, waiting, owner.email)
        factories.invitation(session, organization, f"eve-{number}@example.com")
        factories.attention_item(session, organization, since=now)
        factories.audit_entry(session, organization, at=now)
    session.get_one(RemoteBranchList, of.repository.id).branches = [
        {"name": f"b{number}", "sha": factories.sha(number), "protected": False} for number in range(MADE)
    ]
    session.flush()


def add_prices(session: Session) -> None:
    """Add what Stripe sells."""
    price = {"plan": "team", "unit_amount": 4900, "tax_behavior": "exclusive", "on_sale": True, "is_default": True}
    for number in range(MADE):
        session.add(StripePrice(id=f"price_{number}", currency="EUR", interval="month", **price))
    session.merge(StripeCatalogue(name="prices", synced_at=factories.now()))
    session.flush()


def make_reader(session: Session, http: httpx.Client, name: str) -> Reader:
    """Found an organisation with rows in every list."""
    fixture = make_tenant_fixture(session, name)
    add_rows(session, fixture)
    token = new_session_token()
    factories.login(session, fixture.owner, fixture.organization, token_hash=token_hash(token))
    return Reader(http, fixture, token)


@pytest.fixture(scope="module")
def readers(module_database: str, redis_url: str) -> Iterator[tuple[Reader, Reader]]:
    """Serve two organisations."""
    app = create_app(product_config(module_database, redis_url), product_parts(wakeups=RecordedWakeups()))
    with in_process(app) as http, committing(module_database) as session:
        add_prices(session)
        yield make_reader(session, http, "acme"), make_reader(session, http, "globex")


@pytest.fixture
def reader(readers: tuple[Reader, Reader], redis: Redis) -> Reader:
    return readers[0]


@each_list
def test_pages_of_a_list_are_the_list(reader: Reader, operation: Operation) -> None:
    whole, seen = reader.pages(operation, limit=100), reader.pages(operation, limit=2)
    assert [len(page) for page in seen[:-1]] == [2] * (len(seen) - 1)
    assert len(seen) > 1
    assert list(chain(*seen)) == list(chain(*whole))


@each_list
def test_list_refuses_cursors_that_are_not_its_own(
    reader: Reader, readers: tuple[Reader, Reader], operation: Operation
) -> None:
    cursor = reader.page(operation, limit=1)["nextCursor"]
    others = [one for one in LISTS.values() if one.id != operation.id]
    foreign = [reader.page(one, limit=1)["nextCursor"] for one in others[:2]]
    if operation.security:
        foreign.append(readers[1].page(operation, limit=1)["nextCursor"])
    for wrong in ("nonsense", "AAAA", cursor[:-2], *foreign):
        assert code(reader.get(operation, cursor=wrong)) == (400, "invalid_cursor"), wrong
    for name, value in narrower(reader, operation):
        assert reader.page(operation, limit=1, **{name: value})
        assert code(reader.get(operation, cursor=cursor, **{name: value})) == (400, "invalid_cursor"), name


def narrower(reader: Reader, operation: Operation) -> Iterator[tuple[str, str]]:
    """Yield a value for each parameter that chooses or orders what a list shows; instants mostly come in pairs."""
    for parameter in operation.parameters:
        schema = parameter.schema
        if parameter.location != "query" or parameter.name in {"limit", "cursor"} or "date-time" in schema.values():
            continue
        if "enum" in schema:
            yield parameter.name, next(one for one in schema["enum"] if one != schema.get("default"))
        elif schema["type"] == "boolean":
            yield parameter.name, "true"
        elif NAMES_SOMETHING.fullmatch(parameter.name):
            yield parameter.name, reader.fixture.names(parameter.name)[0][0]
        else:
            yield parameter.name, {"currency": "EUR", "action": "freeze.started"}.get(parameter.name, "main")


@each_list
def test_list_refuses_parameters_outside_the_contract(reader: Reader, operation: Operation) -> None:
    wrong = [("limit", value) for value in ("0", "101", "many")]
    for parameter in operation.parameters:
        if parameter.location == "query" and parameter.name not in {"limit", "cursor"}:
            of_words = parameter.schema.keys() & {"enum", "format"} or parameter.schema["type"] == "boolean"
            wrong += [(parameter.name, value) for value in ("", *(["nonsense"] if of_words else []))]
    for name, value in wrong:
        answer = reader.get(operation, **{name: value})
        assert code(answer) == (400, "invalid_parameter"), (name, value)
        assert [row["path"] for row in answer.json()["error"]["details"]] == [name], (name, value)

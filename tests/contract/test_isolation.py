"""I8: no row of another organisation is ever read or written.

The matrix is made from the contract: whatever carries an id, in path, query or body of any operation, is asked with an
id of another organisation and with one that nobody has. Both answers are alike, and nothing of the other changes.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql as composing
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.database import make_engine
from models.api_keys import ApiKey
from models.attention import AttentionItem
from models.audit import AuditEntry, AuditSeal
from models.base import Base
from models.enforcement import EnforcementSetup, Landing, WrittenRuleset
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.identity import DeviceAuthorization, Invitation, Mail, OneTimeToken
from models.installations import Installation
from models.organizations import Organization, User
from models.pull_requests import PullRequest
from models.repositories import RemoteBranchList, Repository, WatchedBranch
from models.requests import IdempotencyKey
from models.schedules import Occurrence
from rules.ids import new_id
from schemas.contract import Node, Operation, load_contract
from tests import factories

CONTRACT = load_contract()
CREDENTIALLED = [
    one
    for one in CONTRACT.operations.values()
    if (one.accepts("ApiKey") or one.accepts("Session")) and one.realm == "organization"
]
"""Operations in one organisation. What concerns a person is that person's alone: see `tests/handlers`."""
NAMES_SOMETHING = re.compile(r"(?:.*Ids?|repo|ref|repository|repositories|pullRequest|branchId)")
"""Parameters and properties that name an object."""
NOBODYS_YET = {("claim_installation", "installationId")}
"""What is named there is to become somebody's; whose it may become, `tests/handlers/test_installations.py` asks."""

FIND_NOTHING = {"list_audit_entries", "export_audit"}
"""Lists by the id of what may be gone long since: they show what there is of it, which is nothing of others."""
BELONG_TO_NOBODY = {"sessions", "signing_keys", "webhook_deliveries", "chores", "spendings", "attempts"}
"""Tables whose rows belong to no organisation; what the application may do with them is tested below."""
BELONG_TO_MEMBERS = {"users"}
"""Tables whose rows an organisation sees as long as they are of its members."""
NEVER_SEEN = {"mails", "device_authorizations"}
"""Tables that the application may not read."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request names an object."""

    operation: Operation
    where: str
    """`path`, `query` or `body`."""
    name: str
    body: Any = None
    steps: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.operation.id} {self.where} {'/'.join(map(str, self.steps)) or self.name}"


def places() -> Iterator[Place]:
    """Yield every place of the contract that names an object."""
    for operation in CREDENTIALLED:
        bodies = list(samples(operation.body["application/json"])) if operation.body else [(None, ())]
        for parameter in operation.parameters:
            if parameter.location in {"path", "query"} and NAMES_SOMETHING.fullmatch(parameter.name):
                yield Place(operation, parameter.location, parameter.name, bodies[0][0])
        for body, steps in bodies:
            if steps:
                name = next(step for step in reversed(steps) if isinstance(step, str))
                if (operation.id, name) not in NOBODYS_YET:
                    yield Place(operation, "body", name, body, steps)


def samples(node: Node) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Yield bodies of a schema: the least one without steps, and one for each place inside that names an object."""
    node = CONTRACT.resolve(node)
    least = _least(node)
    yield least, ()
    for branch in node.get("oneOf", ()):
        yield from (found for found in samples(branch) if found[1])
    for name, child in node.get("properties", {}).items():
        for value, steps in samples(child):
            if steps or NAMES_SOMETHING.fullmatch(name):
                filled = {**deepcopy(least), name: value}
                deeper = steps or ((0,) if isinstance(value, list) else ())
                yield filled, (name, *deeper)
    if "items" in node:
        yield from (([value], (0, *steps)) for value, steps in samples(node["items"]) if steps)


def _least(node: Node) -> Any:
    """Return the smallest value of a schema that the contract accepts."""
    node = CONTRACT.resolve(node)
    if "oneOf" in node:
        return _least(node["oneOf"][0])
    if "enum" in node:
        return node["enum"][0]
    kind = node.get("type")
    if kind == "object":
        return {name: _least(node["properties"][name]) for name in node.get("required", ())}
    if kind == "array":
        return [_least(node["items"])] if node.get("minItems") else []
    return node.get("example", {"boolean": True, "integer": node.get("minimum", 1)}.get(str(kind), "xxxxxxxx"))


@dataclass(frozen=True, slots=True)
class Estate:
    """An organisation with a row of every kind."""

    organization: Organization
    owner: User
    invitation: Invitation
    installation: Installation
    repository: Repository
    branch: WatchedBranch
    freeze: Freeze
    occurrence: Occurrence
    exception: PullRequestException
    pull: PullRequest
    api_key: ApiKey
    key: str
    token: str

    def credential(self, operation: Operation) -> str:
        """Return what the operation takes: the key of all scopes, or the owner's session."""
        return self.key if operation.accepts("ApiKey") else self.token

    def names(self, name: str) -> list[tuple[str, str]]:
        """Return what a place of this name can be given: an id of this organisation, and its twin of nobody's."""
        owner = self.repository.owner
        full_name, nothing = self.repository.full_name, f"{owner}/nothing"
        repository = [(self.repository.id, new_id("rep")), (full_name, nothing)]
        known: dict[str, list[tuple[str, str]]] = {
            "freezeId": [(self.freeze.id, new_id("frz"))],
            "scheduleId": [(str(self.freeze.schedule_id), new_id("sch"))],
            "occurrenceId": [(self.occurrence.id, new_id("occ"))],
            "exceptionId": [(self.exception.id, new_id("exc"))],
            "requestGroupId": [(self.exception.request_group_id, new_id("exg"))],
            "pullRequestId": [(self.pull.id, new_id("pul"))],
            "targetId": [(self.freeze.id, new_id("frz"))],
            "actorId": [(self.owner.id, new_id("usr"))],
            "branchId": [(self.branch.id, new_id("wbr"))],
            "installationId": [(str(self.installation.id), "999999999")],
            "apiKeyId": [(self.api_key.id, new_id("key"))],
            "userId": [(self.owner.id, new_id("usr"))],
            "invitationId": [(self.invitation.id, new_id("inv"))],
            "pullRequest": [(f"{full_name}#{self.pull.number}", f"{nothing}#{self.pull.number}")],
            "ref": [
                (f"{full_name}#{self.pull.number}", f"{nothing}#{self.pull.number}"),
                (self.pull.url, f"https://github.com/{nothing}/pull/{self.pull.number}"),
            ],
        }
        known |= dict.fromkeys(("repoId", "repo", "repository", "repositories"), repository)
        return known[name]


def estate(session: Session, name: str) -> Estate:
    """Found an organisation."""
    organization = factories.organization(session, name)
    owner = factories.user(session)
    factories.membership(session, organization, owner, "owner")
    installation = factories.installation(session, organization, name)
    repository = factories.repository(session, organization, f"{name}/{name}-web")
    branch = factories.branch(session, repository)
    pull = factories.pull_request(session, repository)
    factories.head_check(session, branch, pull.head_sha, "failure")
    factories.branch_enforcement(session, branch)
    schedule = factories.schedule(session, organization)
    freeze = factories.freeze(session, organization, [branch], source="schedule", schedule_id=schedule.id)
    occurrence = factories.occurrence(session, schedule, freeze_id=freeze.id)
    exception = factories.exception(session, freeze, pull, branch)
    now, text = factories.now(), "x"
    session.add_all(
        [
            AuditEntry(
                id=new_id("aud"),
                organization_id=organization.id,
                at=now,
                action="freeze.started",
                actor=factories.SYSTEM,
                source="system",
                target={},
                details={},
            ),
            AuditSeal(
                organization_id=organization.id,
                sequence=1,
                entry_id=new_id("aud"),
                hash=b"x",
                previous_hash=b"x",
                sealed_at=now,
                action="freeze.started",
                source="system",
            ),
            RemoteBranchList(repository_id=repository.id, organization_id=organization.id, fetched_at=now, branches=[]),
            IdempotencyKey(
                organization_id=organization.id,
                principal_id=text,
                key_hash=b"x",
                request_hash=b"x",
                status=200,
                headers={},
                created_at=now,
            ),
        ]
    )
    session.add_all(found_out(organization, installation, branch))
    invitation, *others = of_people(organization)
    assert isinstance(invitation, Invitation)
    session.add_all([invitation, *others])
    key = factories.api_key(session, organization)
    token = factories.session_token(session, owner, organization)
    session.flush()
    return Estate(
        organization,
        owner,
        invitation,
        installation,
        repository,
        branch,
        freeze,
        occurrence,
        exception,
        pull,
        key.row,
        key.secret,
        token,
    )


def found_out(organization: Organization, installation: Installation, branch: WatchedBranch) -> list[Base]:
    """Return rows of what jobs write down about rules, landings, and what needs attention."""
    now, words = factories.now(), "x"
    return [
        WrittenRuleset(
            level="repository",
            ruleset_id=installation.id,
            organization_id=organization.id,
            installation_id=installation.id,
            check_name=branch.check_name,
            written_at=now,
        ),
        EnforcementSetup(
            id=new_id("set"),
            organization_id=organization.id,
            scope={"type": "organization"},
            state="done",
            requested_by=factories.SYSTEM,
            created_at=now,
        ),
        Landing(
            id=new_id("lnd"),
            organization_id=organization.id,
            branch_id=branch.id,
            sha=factories.sha(branch.id),
            kind="bypassed",
            landed_at=now,
            found_at=now,
            details={},
        ),
        AttentionItem(
            id=new_id("att"),
            organization_id=organization.id,
            key=words,
            type="freeze_bypassed",
            severity="critical",
            since=now,
            subject={},
            message=words,
            action={},
        ),
    ]


def of_people(organization: Organization) -> list[Base]:
    """Return rows of what concerns people."""
    now, words, hashed = factories.now(), "x", organization.id.encode()
    return [
        Invitation(
            id=new_id("inv"),
            organization_id=organization.id,
            email="eve@example.com",
            role="member",
            invited_by=factories.SYSTEM,
            created_at=now,
            expires_at=now + timedelta(days=7),
        ),
        OneTimeToken(
            token_hash=hashed,
            purpose="invitation",
            subject=words,
            organization_id=organization.id,
            created_at=now,
            expires_at=now,
        ),
        Mail(
            id=new_id("mai"),
            organization_id=organization.id,
            recipient="eve@example.com",
            template=words,
            created_at=now,
        ),
        DeviceAuthorization(
            device_code_hash=hashed,
            user_code=words,
            client_id=words,
            address=words,
            created_at=now,
            expires_at=now,
            interval_seconds=5,
            organization_id=organization.id,
        ),
    ]


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    with Session(engine, expire_on_commit=False) as session:
        yield session
    engine.dispose()


@pytest.fixture
def ours(session: Session, redis: Any) -> Estate:
    return estate(session, "acme")


@pytest.fixture
def theirs(session: Session) -> Estate:
    return estate(session, "globex")


def owned_tables() -> dict[str, str]:
    """Return the column that says whose a row is, for each table whose rows are somebody's."""
    every = {table.name for table in Base.metadata.sorted_tables}
    tables = sorted(every - BELONG_TO_NOBODY - BELONG_TO_MEMBERS)
    return {name: "id" if name == "organizations" else "organization_id" for name in tables}


def rows_of(connection: psycopg.Connection[Any], organization_id: str) -> dict[str, list[Any]]:
    """Return all rows of an organisation, by table."""
    query = "SELECT to_jsonb(t)::text FROM {} t WHERE {} = %s ORDER BY 1"
    return {
        table: connection.execute(
            composing.SQL(query).format(composing.Identifier(table), composing.Identifier(column)), (organization_id,)
        ).fetchall()
        for table, column in owned_tables().items()
    }


def send(http: httpx.Client, caller: Estate, place: Place, value: str) -> httpx.Response:
    """Call the place's operation as `caller`, who names `value` there and their own objects everywhere else."""
    operation = place.operation
    path = operation.path
    for parameter in operation.parameters:
        if parameter.location == "path":
            given = (
                value if place.where == "path" and parameter.name == place.name else caller.names(parameter.name)[0][0]
            )
            path = path.replace("{" + parameter.name + "}", given.replace("/", "%2F"))
    required = [one.name for one in operation.parameters if one.location == "query" and one.required]
    query = {name: "2026-12" if name == "month" else "7" for name in required}
    if place.where == "query":
        query[place.name] = value
    body = deepcopy(place.body)
    if place.where == "body":
        _put(body, place.steps, value)
    request = {"json": body} if body is not None else {}
    headers = {"Authorization": f"Bearer {caller.credential(operation)}"}
    return http.request(operation.method, path, params=query, headers=headers, **request)


def _put(body: Any, steps: Sequence[str | int], value: str) -> None:
    for step in steps[:-1]:
        body = body[step]
    body[steps[-1]] = value


def told(response: httpx.Response, value: str) -> tuple[int, str]:
    """Return status and answer, without what may differ between two requests: their ids, and what they name."""
    text = re.sub(r"req_[0-9a-v]{26}", "req", response.text).replace(value, "…")
    return response.status_code, re.sub("globex/[a-z-]+", "…", text)


def holds_nothing(response: httpx.Response) -> bool:
    """Tell whether a list, or a file of CSV with its header, has no row."""
    if response.headers["Content-Type"].startswith("text/csv"):
        return response.text.count("\r\n") == 1
    return not response.json()["data"]


PLACES = list(places())


class TestTheMatrix:
    def test_has_every_operation_that_names_something(self) -> None:
        asked = {place.operation.id for place in PLACES}
        named = {one.id for one in CREDENTIALLED if "{" in one.path}
        scoped = {"create_freeze", "preview_scope", "verify_enforcement", "setup_enforcement", "seed_check"}
        assert named | scoped | {"lift_freezes", "enable_repositories"} <= asked
        scopes = {(place.operation.id, place.steps) for place in PLACES if place.operation.id in scoped}
        forms = {("scope", "repositories", 0), ("scope", "branchId"), ("scope", "repository")}
        assert scopes == {(operation, steps) for operation in scoped for steps in forms}

    @pytest.mark.parametrize("place", PLACES, ids=str)
    def test_another_organisations_id_is_answered_like_nobodys_and_nothing_of_it_changes(
        self, http: httpx.Client, sql: psycopg.Connection[Any], ours: Estate, theirs: Estate, place: Place
    ) -> None:
        before = rows_of(sql, theirs.organization.id)
        for foreign, nobodys in theirs.names(place.name):
            answer = send(http, ours, place, foreign)
            if place.operation.id in FIND_NOTHING:
                assert answer.status_code == 200, f"{place}: {answer.text}"
                assert holds_nothing(answer), f"{place}: {answer.text}"
            else:
                assert 400 <= answer.status_code < 500, f"{place}: {answer.text}"
                code = answer.json()["error"]["code"]
                assert code.endswith("_not_found") or code == "invalid_parameter", answer.text
            assert told(answer, foreign) == told(send(http, ours, place, nobodys), nobodys)
        assert rows_of(sql, theirs.organization.id) == before

    @pytest.mark.parametrize("place", PLACES, ids=str)
    def test_ones_own_id_is_found_in_the_same_place(
        self, http: httpx.Client, ours: Estate, theirs: Estate, place: Place
    ) -> None:
        for own, _nobodys in ours.names(place.name):
            answer = send(http, ours, place, own)
            code = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
            assert not code.endswith("_not_found"), f"{place}: {answer.text}"
            assert code != "invalid_parameter", f"{place}: {answer.text}"


class TestRowLevelSecurity:
    @pytest.fixture
    def as_us(self, database: str, ours: Estate, theirs: Estate) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection of the API's own role, bound to our organisation; `theirs` has rows in every table."""
        engine = make_engine(database, 1)
        pooled = engine.raw_connection()
        connection = pooled.driver_connection
        assert isinstance(connection, psycopg.Connection)
        connection.autocommit = True
        connection.execute("SELECT set_config('app.organization_id', %s, false)", (ours.organization.id,))
        yield connection
        pooled.invalidate()
        engine.dispose()

    def test_is_forced_on_every_table_whose_rows_are_somebodys(self, sql: psycopg.Connection[Any]) -> None:
        rows = sql.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchall()
        assert {name for (name,) in rows} == BELONG_TO_NOBODY | {"alembic_version"}

    def test_has_something_to_hide_in_every_table(self, sql: psycopg.Connection[Any], theirs: Estate) -> None:
        assert [table for table, rows in rows_of(sql, theirs.organization.id).items() if not rows] == []

    @pytest.mark.parametrize("table", owned_tables())
    def test_shows_and_changes_no_row_of_another_organisation(
        self, as_us: psycopg.Connection[Any], sql: psycopg.Connection[Any], theirs: Estate, table: str
    ) -> None:
        whose = composing.Identifier(owned_tables()[table])
        name, before = composing.Identifier(table), rows_of(sql, theirs.organization.id)
        query = composing.SQL("SELECT DISTINCT {} FROM {}").format(whose, name)
        with pytest.raises(psycopg.errors.InsufficientPrivilege) if table in NEVER_SEEN else nullcontext():
            assert (theirs.organization.id,) not in as_us.execute(query).fetchall()
        for statement in ("UPDATE {name} SET {whose} = {whose}", "DELETE FROM {name} WHERE {whose} = {theirs}"):
            written = composing.SQL(statement).format(
                name=name, whose=whose, theirs=composing.Literal(theirs.organization.id)
            )
            with suppress(psycopg.errors.InsufficientPrivilege):  # the role may have no such right at all
                as_us.execute(written)
        assert rows_of(sql, theirs.organization.id) == before

    @pytest.mark.parametrize("table", owned_tables())
    def test_takes_no_row_for_another_organisation(
        self, as_us: psycopg.Connection[Any], sql: psycopg.Connection[Any], theirs: Estate, table: str
    ) -> None:
        before = rows_of(sql, theirs.organization.id)
        [(row,), *_] = before[table]
        name, whose = composing.Identifier(table), composing.Identifier(owned_tables()[table])
        given = (column.name for column in Base.metadata.tables[table].columns if column.computed is None)
        columns = composing.SQL(", ").join(map(composing.Identifier, given))
        query = "INSERT INTO {n} ({columns}) SELECT {columns} FROM json_populate_record(NULL::{n}, %s)"
        again = composing.SQL(query).format(n=name, columns=columns)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_us.execute(again, (row,))
        given_away = composing.SQL("UPDATE {} SET {} = %s").format(name, whose)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_us.execute(given_away, (theirs.organization.id,))
        assert rows_of(sql, theirs.organization.id) == before

    def test_shows_people_who_are_members_alone(self, as_us: psycopg.Connection[Any], ours: Estate) -> None:
        shown = as_us.execute("SELECT id FROM users").fetchall()
        assert shown == as_us.execute("SELECT user_id FROM memberships").fetchall() != []

    @pytest.mark.parametrize("table", sorted(owned_tables().keys() - NEVER_SEEN))
    def test_without_an_organisation_shows_nothing(self, as_us: psycopg.Connection[Any], table: str) -> None:
        for nobody in ("", "org_00000000000000000000000000"):
            as_us.execute("SELECT set_config('app.organization_id', %s, false)", (nobody,))
            query = composing.SQL("SELECT count(*) FROM {}").format(composing.Identifier(table))
            assert as_us.execute(query).fetchone() == (0,)

    @pytest.mark.parametrize(
        "query",
        [
            "SELECT password_hash FROM users",
            "UPDATE users SET name = 'x'",
            "SELECT * FROM mails",
            "SELECT * FROM device_authorizations",
            "SELECT * FROM attempts",
            "SELECT * FROM sessions",
            "SELECT sealed_private_key FROM signing_keys",
            "SELECT payload FROM webhook_deliveries",
            "UPDATE webhook_deliveries SET payload = '{}'",
            "DELETE FROM webhook_deliveries",
            "UPDATE chores SET done_at = now()",
            "SET ROLE change_freeze_worker",
            "SET ROLE change_freeze_identity",
            "ALTER TABLE freezes DISABLE ROW LEVEL SECURITY",
            "UPDATE audit_entries SET action = 'x'",
            "DELETE FROM audit_entries",
        ],
    )
    def test_the_application_has_no_way_round_it(self, as_us: psycopg.Connection[Any], query: str) -> None:
        if query.startswith("SET ROLE"):
            as_us.execute("SET SESSION AUTHORIZATION change_freeze_app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_us.execute(query)

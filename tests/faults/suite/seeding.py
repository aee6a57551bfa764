"""What there is before anything goes wrong: two organisations, their repositories and open pull requests."""

from dataclasses import dataclass

from sqlalchemy import create_engine, make_url, pool
from sqlalchemy.orm import Session

from models.organizations import Organization as Row
from tests import factories
from tools.fake_github import FakeGitHub
from tools.fake_github.model.records import Repository

PULL_REQUESTS = 2


@dataclass(frozen=True, slots=True)
class Organization:
    """An organisation on both sides."""

    id: str
    login: str
    installation_id: int
    key: str
    """The secret of an API key with every scope."""
    session: str
    """The token of an owner."""
    support: str
    """The token of a support session: everything readable, nothing changeable."""
    repositories: tuple[Repository, ...]
    """At GitHub."""
    branches: tuple[str, ...]
    """The watched `main` of each, in the same order."""

    @property
    def names(self) -> list[str]:
        """The full names of its repositories."""
        return [f"{self.login}/{repository.name}" for repository in self.repositories]


def fill(database_url: str, github: FakeGitHub, *, small: bool) -> tuple[Organization, Organization]:
    """Make `acme`, which faults are tried on, and `beta`, which works all the while; their branches are due."""
    engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with Session(engine) as session:
        acme = _organization(session, github, "acme", 4711, 16 if small else 30)
        beta = _organization(session, github, "beta", 4712, 6 if small else 10)
        session.commit()
    return acme, beta


def _organization(session: Session, github: FakeGitHub, login: str, installation_id: int, count: int) -> Organization:
    row = factories.organization(session, login.title())
    factories.installation(session, row, login, id=installation_id)
    made = [_repository(session, github, row, f"{login}/service-{number}") for number in range(1, count + 1)]
    github.organization(login).installed(installation_id=installation_id)
    return Organization(
        row.id,
        login,
        installation_id,
        factories.api_key(session, row).secret,
        factories.member_token(session, row, "owner"),
        factories.member_token(session, row, "owner", support=True),
        tuple(record for record, _branch in made),
        tuple(branch for _record, branch in made),
    )


def _repository(session: Session, github: FakeGitHub, of: Row, full_name: str) -> tuple[Repository, str]:
    login, name = full_name.split("/")
    builder = github.organization(login).repository(name).requires("change-freeze/main", "main")
    for _ in range(PULL_REQUESTS):
        builder.pull_request(base="main")
    record = builder.record
    row = factories.repository(session, of, full_name, github_id=record.id, node_id=record.node_id)
    branch = factories.branch(session, row, "main", wanted_generation=1, due_at=factories.now())
    return record, branch.id

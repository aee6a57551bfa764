"""Applications and credentials for what is measured in this process."""

from datetime import timedelta

from app.commands.units_of_work import NoWakeups
from app.config import Config
from app.database import Reads
from app.edge.authentication import Credentials
from app.edge.key_uses import KeyUses
from app.main import Application, Parts, create_app, make_credentials
from models.organizations import Organization
from services.core.clock import DatabaseClock
from tests import factories
from tools.bench.servers import Storage

ROUNDS = 5


def sign_in(stores: Storage) -> str:
    """Return a JWT of a new member of the seeded organisation."""
    with stores.rows() as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        return factories.session_token(session, member, organization, ttl=timedelta(hours=1))


def make_config(stores: Storage) -> Config:
    """Return the configuration of an application whose limits are never met."""
    return Config(
        database_url=stores.database_url,
        redis_url=stores.redis_url,
        rate_limit_organization=10**9,
        cursor_secret="a secret of the benchmark",  # noqa: S106 - opens nothing
        secret_key="another secret of the benchmark",  # noqa: S106 - the same
    )


def make_application(config: Config) -> Application:
    """Return the application, which wakes no workers: nothing is written here."""
    return create_app(config, Parts(wakeups=NoWakeups(), access_log=False))


def make_credential_check(reads: Reads, config: Config) -> tuple[Credentials, KeyUses]:
    """Return what checks credentials, and what records the uses of keys."""
    uses = KeyUses(reads)
    return make_credentials(config, reads, uses, DatabaseClock()), uses

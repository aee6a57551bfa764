"""States in SQL, which lists are filtered by, and in Python, which rows are shown with, are the same."""

from datetime import timedelta
from itertools import product

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.exception_queries import standing
from models.exception_states import state_is
from models.exceptions import PullRequestException
from models.freezes import Freeze
from rules.freezes.pull_request_exceptions import STATES
from services.pull_request_exceptions.states import states_of
from tests import factories
from tests.services.pull_request_exceptions.conftest import Scene


def test_sql_and_python_mean_the_same_by_each_state(scene: Scene, session: Session) -> None:
    with scene.uow_factory.open(scene.caller()) as uow:
        now = uow.now
    before, after = now - timedelta(seconds=1), now + timedelta(seconds=1)
    lengths = [(None, None), (now, None), (after, None), (None, before)]
    freezes = [
        factories.freeze(session, scene.organization, [scene.branch], ends_at=ends_at, ended_at=ended_at)
        for ends_at, ended_at in lengths
    ]
    facts = product(freezes, (None, "granted", "denied"), (None, before), (None, before), (None, before, now, after))
    for number, (freeze, decision, revoked_at, expired_at, expires_at) in enumerate(facts, start=100):
        pull = factories.pull_request(session, scene.repository, number)
        factories.exception(
            session,
            freeze,
            pull,
            scene.branch,
            decision=decision,
            revoked_at=revoked_at,
            expired_at=expired_at,
            expires_at=expires_at,
        )
    session.commit()
    with scene.uow_factory.open(scene.caller()) as uow:
        uow.now = now
        rows = uow.session.scalars(select(PullRequestException)).all()
        told = states_of(uow, rows)
        joined = select(PullRequestException.id).join(Freeze, Freeze.id == PullRequestException.freeze_id)
        for state in STATES:
            found = set(uow.session.scalars(joined.where(state_is(state, now))))
            assert found == {row_id for row_id, its_state in told.items() if its_state == state}
            assert found
        held = standing(uow.session, [row.pull_request_id for row in rows], now)
        assert {row.id for row in held} == {row_id for row_id, its_state in told.items() if its_state == "granted"}

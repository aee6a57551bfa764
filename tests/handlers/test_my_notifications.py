"""What a person gets mails of in an organisation: shown and chosen by themselves."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.notifications import MailChoice, NotificationDestination
from rules.notifications.kinds import KINDS
from rules.notifications.mails import MAILED_KINDS
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.people import member

PATH = "/v1/me/notifications"


class TestGetMyNotifications:
    def test_person_who_has_not_chosen_is_shown_what_their_role_is_given(self, acme: Tenant) -> None:
        shown = acme.person("viewer").get(PATH).json()
        assert (shown["kinds"], shown["remindBefore"]) == (["exception.requested", "exception.decided"], [])
        assert [one["kind"] for one in shown["choices"]] == list(MAILED_KINDS)
        assert {one["meaning"] for one in shown["choices"]} <= {kind.meaning for kind in KINDS.values()}
        assert "freeze.bypassed" in acme.person("admin").get(PATH).json()["kinds"]


class TestUpdateMyNotifications:
    def test_choice_is_kept_shown_and_audited(self, acme: Tenant, session: Session) -> None:
        grace = member(acme, "viewer")
        answer = answered(grace.caller.patch(PATH, {"kinds": ["freeze.started"], "remindBefore": [60, 15]}))
        assert (answer["kinds"], answer["remindBefore"]) == (["freeze.started"], [15, 60])
        assert grace.caller.get(PATH).json() == answer
        [entry] = factories.audit_entries(session)
        assert (entry.action, entry.target["id"]) == ("member.notifications_changed", grace.id)
        assert entry.details == {
            "before": {"kinds": ["exception.requested", "exception.decided"], "remindBefore": []},
            "after": {"kinds": ["freeze.started"], "remindBefore": [15, 60]},
        }

    def test_choice_is_that_of_one_person_in_one_organization(self, acme: Tenant, globex: Tenant) -> None:
        acme.person("viewer").patch(PATH, {"kinds": []})
        assert acme.person("viewer").get(PATH).json()["kinds"] == []
        for other in (acme.person("member"), globex.person("viewer")):
            assert other.get(PATH).json()["kinds"] == ["exception.requested", "exception.decided"]

    def test_repeated_choice_is_audited_once(self, acme: Tenant) -> None:
        for _ in range(2):
            assert acme.person("viewer").patch(PATH, {"remindBefore": [30]}).status_code == 200
        assert acme.audit() == ["member.notifications_changed"]

    def test_reminders_alone_leave_the_kinds_to_the_role(self, acme: Tenant, session: Session) -> None:
        acme.person("admin").patch(PATH, {"remindBefore": [30]})
        assert session.scalars(select(MailChoice)).one().kinds is None
        assert "enforcement.lost" in acme.person("admin").get(PATH).json()["kinds"]

    def test_windows_are_announced_whenever_one_member_wants_it(self, acme: Tenant, session: Session) -> None:
        session.add(NotificationDestination(id=acme.id, organization_id=acme.id, channel="mail", sequence=0))
        session.flush()
        acme.person("viewer").patch(PATH, {"remindBefore": [60]})
        acme.person("member").patch(PATH, {"remindBefore": [60, 15]})
        assert self.announced(session) == [15, 60]
        acme.person("member").patch(PATH, {"remindBefore": []})
        assert self.announced(session) == [60]

    @staticmethod
    def announced(session: Session) -> list[int]:
        session.expire_all()
        return session.scalars(select(NotificationDestination)).one().remind_before

    def test_invalid_choice_names_each_property(self, acme: Tenant) -> None:
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"kinds": ["window.upcoming"]}, ["/kinds/0"]),
            ({"kinds": "all"}, ["/kinds"]),
            ({"kinds": ["freeze.started"] * 2}, ["/kinds"]),
            ({"remindBefore": [4, 7 * 24 * 60 + 1, "60"]}, [f"/remindBefore/{n}" for n in range(3)]),
            ({"remindBefore": list(range(10, 16))}, ["/remindBefore"]),
            ({"userId": "usr_1"}, ["/userId"]),
        ]
        for body, paths in cases:
            error = refusal(acme.person("viewer").patch(PATH, body), 422, "validation_failed")
            assert [row["path"] for row in error["details"]] == paths

    def test_contract_has_the_kinds_and_bounds_of_the_rules(self) -> None:
        schemas = load_contract().document["components"]["schemas"]
        asked = schemas["UpdateMyNotificationsRequest"]["properties"]
        assert asked["kinds"]["items"]["enum"] == list(MAILED_KINDS)
        assert schemas["NotificationKind"]["x-extensible-enum"] == list(MAILED_KINDS)
        minutes = asked["remindBefore"]
        assert (minutes["items"]["minimum"], minutes["items"]["maximum"]) == (5, 7 * 24 * 60)
        assert minutes["maxItems"] == 5

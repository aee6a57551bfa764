"""Ids and references, roles and scopes, plans."""

import itertools
import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.access.permissions import CODE_HOST, ROLES, SYSTEM, Principal, Role, role_reaches, scopes_reach
from rules.billing.plans import COUNTED, PLANS, require_room
from rules.errors import ServiceError
from rules.freezes.pull_references import MAX_NUMBER, PullReference, read_reference
from rules.ids import derive_id, has_prefix, instant_of, new_id


class TestIds:
    def test_id_is_its_prefix_and_26_lower_case_characters(self) -> None:
        made = new_id("frz")
        assert made.startswith("frz_")
        assert len(made) == 4 + 26
        assert set(made[4:]) <= set(string.digits + string.ascii_lowercase[:22])
        assert has_prefix(made, "frz")

    def test_ids_are_unique(self) -> None:
        assert len({new_id("frz") for _ in range(10_000)}) == 10_000

    def test_derived_id_follows_from_owner_and_instant(self) -> None:
        at = datetime(2027, 3, 28, 1, tzinfo=UTC)
        made = derive_id("occ", "sch_1", at)
        assert has_prefix(made, "occ")
        assert made == derive_id("occ", "sch_1", at) != derive_id("occ", "sch_2", at)
        assert made < derive_id("occ", "sch_1", at + timedelta(milliseconds=1))
        assert instant_of(made, "occ", "sch_1") == at

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(derive_id("occ", "sch_2", datetime(2027, 3, 28, 1, tzinfo=UTC)), id="of another owner"),
            pytest.param(derive_id("frz", "sch_1", datetime(2027, 3, 28, 1, tzinfo=UTC)), id="with another prefix"),
            pytest.param(
                "occ_vvvvvvvvv" + derive_id("occ", "sch_1", datetime(2027, 3, 28, tzinfo=UTC))[13:], id="of no date"
            ),
            pytest.param("occ_", id="too short"),
            pytest.param("occ_" + 26 * "0", id="without a hash"),
        ],
    )
    def test_id_that_was_not_derived_has_no_instant(self, other: str) -> None:
        assert instant_of(other, "occ", "sch_1") is None

    def test_new_id_has_no_instant_of_an_owner(self) -> None:
        assert instant_of(new_id("occ"), "occ", "sch_1") is None

    def test_ids_sort_by_creation_also_within_a_millisecond(self) -> None:
        made = [new_id("frz") for _ in range(20_000)]
        assert made == sorted(made)
        milliseconds = {one[4:13] for one in made}  # 45 bits of them
        assert 1 < len(milliseconds) < len(made)

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("wbr_00000000000000000000000000", id="another prefix"),
            pytest.param("frz_0000000000000000000000000", id="too short"),
            pytest.param("frz_000000000000000000000000000", id="too long"),
            pytest.param("frz_0000000000000000000000000w", id="a character that no id has"),
            pytest.param("FRZ_00000000000000000000000000", id="capitals"),
            pytest.param("frz_00000000000000000000000000\n", id="a line feed behind"),
            pytest.param("frz_" + "\N{ARABIC-INDIC DIGIT ZERO}" * 26, id="digits of another script"),
            pytest.param("", id="nothing"),
        ],
    )
    def test_id_of_another_form_does_not_have_the_freeze_prefix(self, text: str) -> None:
        assert not has_prefix(text, "frz")


ORIGINS = ("https://github.com", "https://api.github.com")


class TestPullReferences:
    @pytest.mark.parametrize(
        ("text", "repository", "number"),
        [
            pytest.param("7", None, 7, id="a bare number"),
            pytest.param("#7", None, 7, id="a number with a hash"),
            pytest.param("acme/web#7", "acme/web", 7, id="owner, name and number"),
            pytest.param("https://github.com/acme/web/pull/7", "acme/web", 7, id="an address"),
            pytest.param("https://github.com/acme/web/pull/7/files?w=1#r2", "acme/web", 7, id="a page below it"),
            pytest.param("HTTP://GitHub.com/acme/web/pull/7", "acme/web", 7, id="the host in capitals"),
            pytest.param("https://github.com/github/acme/web/pull/7", "acme/web", 7, id="a path before it"),
            pytest.param("https://api.github.com/repos/acme/web/pulls/7", "acme/web", 7, id="the API's address"),
            pytest.param("acme/pull#7", "acme/pull", 7, id="a repository called pull"),
            pytest.param("https://github.com/acme/pull/pull/7", "acme/pull", 7, id="and its address"),
            pytest.param(f"acme/web#{MAX_NUMBER}", "acme/web", MAX_NUMBER, id="the largest number"),
        ],
    )
    def test_every_form_of_a_pull_request_reference_is_read(
        self, text: str, repository: str | None, number: int
    ) -> None:
        assert read_reference(text, ORIGINS) == PullReference(repository, number)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "0",
            "-7",
            "+7",
            "7.0",
            "1_0",
            "\N{ARABIC-INDIC DIGIT SEVEN}",
            "web#7",
            "acme/web",
            "acme/web#",
            "acme/web#0",
            "acme/web/more#7",
            f"{MAX_NUMBER + 1}",
            "9" * 400,
            "github.com/acme/web/pull/7",
            "ftp://github.com/acme/web/pull/7",
            "https:///acme/web/pull/7",
            "http://127.0.0.1:9000/acme/web/pull/7",
            "https://github.com.elsewhere.example/acme/web/pull/7",
            "https://github.com@elsewhere.example/acme/web/pull/7",
            "https://github.com/acme/web/issues/7",
            "https://github.com/web/pull/7",
            "https://github.com/acme/web/pull/seven",
            "https://github.com/acme/web/pull/7x",
            "https://[::1/acme/web/pull/7",
            "https://github.com/acme/w%00b/pull/7",
        ],
    )
    def test_malformed_pull_request_reference_is_rejected(self, text: str) -> None:
        assert read_reference(text, ORIGINS) is None

    @given(st.text(max_size=500))
    def test_pull_request_reference_never_raises_for_any_text(self, text: str) -> None:
        read = read_reference(text, ORIGINS)
        assert read is None or 0 < read.number <= MAX_NUMBER

    NAMES = st.text(alphabet=string.ascii_letters + string.digits + "._-", min_size=1, max_size=20)

    @given(NAMES, NAMES, st.integers(1, MAX_NUMBER))
    def test_short_form_and_address_of_a_pull_request_are_equivalent(self, owner: str, name: str, number: int) -> None:
        expected = PullReference(f"{owner}/{name}", number)
        assert read_reference(f"{owner}/{name}#{number}", ORIGINS) == expected
        assert read_reference(f"https://github.com/{owner}/{name}/pull/{number}", ORIGINS) == expected


class TestPermissions:
    @pytest.mark.parametrize(("role", "least"), list(itertools.product(ROLES, ROLES)))
    def test_role_has_every_right_of_lower_roles(self, role: Role, least: Role) -> None:
        assert role_reaches(role, least) is (ROLES.index(role) >= ROLES.index(least))

    def test_missing_role_has_no_rights(self) -> None:
        assert not any(role_reaches(None, role) for role in ROLES)

    @pytest.mark.parametrize(
        ("scopes", "any_of", "expected"),
        [
            pytest.param(["repo:read"], ["repo:read", "billing:read"], True, id="one of several is enough"),
            pytest.param(["repo:write"], ["repo:read"], False, id="write does not include read"),
            pytest.param([], ["repo:read"], False, id="no scope reaches nothing"),
        ],
    )
    def test_any_single_scope_suffices(self, scopes: list[str], any_of: list[str], expected: bool) -> None:
        assert scopes_reach(scopes, any_of) is expected

    @pytest.mark.parametrize(
        ("principal", "actor", "source"),
        [
            (
                Principal("session", "usr_1", "Ada", "org_1"),
                {"type": "user", "id": "usr_1", "name": "Ada"},
                "dashboard",
            ),
            (Principal("api_key", "key_1", "ci", "org_1"), {"type": "api_key", "id": "key_1", "name": "ci"}, "api"),
            (
                Principal("session", "usr_1", "Ada", "org_1", support=True),
                {"type": "support", "id": "usr_1", "name": "Ada"},
                "dashboard",
            ),
        ],
        ids=["a person", "a key", "support"],
    )
    def test_principal_has_its_actor_and_source(self, principal: Principal, actor: dict[str, str], source: str) -> None:
        assert principal.actor.as_json() == actor
        assert principal.source == source

    def test_actors_for_the_service_and_github_have_no_id(self) -> None:
        assert (SYSTEM.id, CODE_HOST.id) == (None, None)


class TestEntitlements:
    def test_each_plan_includes_the_lower_plan(self) -> None:
        for lesser, greater in itertools.pairwise((PLANS["free"], PLANS["team"], PLANS["business"])):
            assert set(lesser.entitlements) <= set(greater.entitlements)
            assert lesser.rank < greater.rank
            assert lesser.audit_retention_days < greater.audit_retention_days
            for name in COUNTED:
                less, more = lesser.limits[name], greater.limits[name]
                assert more is None or (less is not None and less < more)

    @pytest.mark.parametrize(
        ("plan", "watched", "added", "refused"),
        [
            pytest.param("free", 0, 25, False, id="up to the limit"),
            pytest.param("free", 25, 1, True, id="one more"),
            pytest.param("free", 40, 0, False, id="nothing more, though over the limit by a lost plan"),
            pytest.param("free", 40, 1, True, id="more, over the limit by a lost plan"),
            pytest.param("business", 10**6, 10**4, False, id="any number without a limit"),
        ],
    )
    def test_watched_branches_beyond_the_limit_of_a_plan_are_rejected(
        self, plan: str, watched: int, added: int, refused: bool
    ) -> None:
        if not refused:
            require_room(PLANS[plan], "watched_branches", watched, added)
            return
        with pytest.raises(ServiceError, match=f"25 watched branches. You have {watched},") as caught:
            require_room(PLANS[plan], "watched_branches", watched, added)
        assert caught.value.code == "feature_not_available"

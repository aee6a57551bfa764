"""Names and words of checks, and the order in which they are written."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.access.organization_settings import OrganizationSettings
from rules.freezes.check_names import (
    check_name,
    former_globs,
    is_pattern_check,
    pattern_check_name,
    watched_automatically,
)
from rules.freezes.check_text import MAX_LISTED, Audience, summary, title
from rules.freezes.merge_rank import APPROVED, AUTO_MERGE, DRAFT, NOTHING_OPEN, OPEN, QUEUED, SUPERSEDED, merge_rank
from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate, Verdict, judge, judge_for_pattern

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class TestCheckNames:
    @pytest.mark.parametrize(
        ("branch", "auto_watch", "expected"),
        [
            pytest.param("main", [], None, id="none without globs"),
            pytest.param("main", ["release/*"], None, id="none where no glob matches"),
            pytest.param("release/1", ["release/*"], "change-freeze/release/*", id="that of the pattern"),
            pytest.param("release/1", ["**", "release/*"], "change-freeze/**", id="that of the first pattern"),
            pytest.param("release/1", ["!release/1", "release/*"], "change-freeze/release/*", id="not an exclusion's"),
            pytest.param("release/1", ["release/*", "!release/1"], None, id="none for an excluded branch"),
            pytest.param("main", ["main", "m*"], None, id="none for a glob that is the branch itself"),
        ],
    )
    def test_pattern_check_name_depends_on_branch_and_auto_watch_patterns(
        self, branch: str, auto_watch: list[str], expected: str | None
    ) -> None:
        assert pattern_check_name(branch, auto_watch) == expected

    @given(st.sampled_from(["release/1", "main", "x"]))
    def test_check_name_is_never_that_of_a_pattern(self, branch: str) -> None:
        assert check_name(branch) == f"change-freeze/{branch}"
        assert not is_pattern_check(check_name(branch))

    @pytest.mark.parametrize(
        ("branch", "auto_watch", "expected"),
        [
            pytest.param("main", [], False, id="no globs watch nothing"),
            pytest.param("release/1", ["release/*"], True, id="a match is watched"),
            pytest.param("release/1", ["release/*", "!release/1"], False, id="an exclusion is not"),
            pytest.param("Release/1", ["release/*"], False, id="case counts"),
        ],
    )
    def test_branch_is_watched_automatically_when_a_pattern_matches(
        self, branch: str, auto_watch: list[str], expected: bool
    ) -> None:
        assert watched_automatically(branch, auto_watch) is expected

    @given(
        st.sampled_from(["release/1", "main", "x"]), st.lists(st.sampled_from(["release/*", "**", "m*"]), max_size=3)
    )
    def test_automatically_watched_branch_has_the_check_of_a_pattern(self, branch: str, auto_watch: list[str]) -> None:
        name = pattern_check_name(branch, auto_watch)
        assert (name is not None) == watched_automatically(branch, auto_watch)
        if name is not None:
            assert is_pattern_check(name)
            assert name.removeprefix("change-freeze/") in auto_watch


def blocked(*freezes: CoveringFreeze, branch: str = "main") -> Verdict:
    return judge([MergeCandidate(branch, 1, freezes)])


def freeze(number: int = 1, **changes: object) -> CoveringFreeze:
    columns: dict[str, object] = {"reason": f"Reason {number}", "started_at": NOON, "ends_at": None, **changes}
    return CoveringFreeze(id=f"frz_{number}", **columns)  # type: ignore[arg-type]


class TestCheckText:
    def test_text_of_an_allowed_head_explains_the_automatic_change(self) -> None:
        verdict = judge([])
        assert title(verdict) == "No freeze covers this branch"
        assert "fails automatically" in summary(verdict)

    def test_text_of_a_blocked_head_has_freeze_reason_and_end(self) -> None:
        verdict = blocked(freeze(7, reason="Black Friday", ends_at=NOON + timedelta(days=1)))
        assert title(verdict) == "Merging into main is frozen until 2026-11-22 12:00 UTC"
        text = summary(verdict)
        for word in ("Black Friday", "frz_7", "2026-11-21 12:00 UTC", "2026-11-22 12:00 UTC", "exception"):
            assert word in text

    def test_title_has_no_end_when_any_freeze_is_open_ended(self) -> None:
        assert title(blocked(freeze(1, ends_at=NOON), freeze(2))).endswith("until it is lifted")

    def test_title_has_the_latest_end_of_several_freezes(self) -> None:
        later = NOON + timedelta(days=3)
        assert f"until {later:%Y-%m-%d %H:%M} UTC" in title(blocked(freeze(1, ends_at=later), freeze(2, ends_at=NOON)))

    def test_text_suggests_no_exception_when_exceptions_are_off(self) -> None:
        text = summary(blocked(freeze(1), freeze(2, exceptions_allowed=False)))
        assert "does not allow exceptions" in text
        assert "request an exception" not in text

    def test_text_suggests_no_exception_when_the_plan_has_none(self) -> None:
        text = summary(blocked(freeze(1)), Audience(exceptions=False))
        assert text.endswith("Merge after it ends.")
        assert "exception" not in text

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            (OrganizationSettings(), "An admin or owner of the organisation other than who requests it decides."),
            (OrganizationSettings("member", True), "A member, admin or owner of the organisation decides."),
        ],
    )
    def test_text_says_who_decides(self, settings: OrganizationSettings, sentence: str) -> None:
        assert summary(blocked(freeze(1)), Audience(settings=settings), button=True).endswith(sentence)

    def test_text_has_instants_in_the_zone_of_the_organisation(self) -> None:
        audience = Audience(settings=OrganizationSettings(timezone="Asia/Tokyo"))
        verdict = blocked(freeze(1, ends_at=NOON + timedelta(hours=6)))
        assert title(verdict, audience).endswith("until 2026-11-21 18:00 UTC (2026-11-22 03:00 Asia/Tokyo)")
        assert "since 2026-11-21 12:00 UTC (21:00 Asia/Tokyo), until" in summary(verdict, audience)

    def test_text_names_who_started_the_freeze_except_for_everybody(self) -> None:
        verdict = blocked(freeze(1, started_by="[Ada]"))
        assert r"(`frz_1`), started by \[Ada\], since" in summary(verdict)
        assert "Ada" not in summary(verdict, Audience(private=False))

    def test_text_leads_to_the_page_of_each_pull_request(self) -> None:
        text = summary(blocked(freeze(1)), Audience("rep_1", "https://freeze.test"), numbers=(7, 9))
        assert (
            "[#7](https://freeze.test/pulls?repo=rep_1&ref=7), [#9](https://freeze.test/pulls?repo=rep_1&ref=9)" in text
        )

    def test_freezes_beyond_the_listed_maximum_are_counted(self) -> None:
        text = summary(blocked(*(freeze(number) for number in range(MAX_LISTED + 3))))
        assert "and 3 more" in text

    @given(st.text(min_size=8, max_size=1000), st.integers(1, 30))
    def test_check_text_fits_the_limits_of_github_for_any_reason(self, reason: str, count: int) -> None:
        verdict = blocked(*(freeze(number, reason=reason) for number in range(count)), branch="b" * 255)
        assert len(title(verdict)) <= 255
        assert "\n" not in title(verdict)
        assert len(summary(verdict)) < 65_535

    @given(st.text(min_size=8, max_size=60))
    def test_reason_in_the_check_text_stays_on_its_line(self, reason: str) -> None:
        lines = summary(blocked(freeze(1, reason=reason))).split("\n")
        assert len(lines) == len(summary(blocked(freeze(1))).split("\n"))

    @pytest.mark.parametrize(
        ("reason", "shown"),
        [
            pytest.param("Release 2.4, part (b)", "Release 2.4, part (b)", id="ordinary"),
            pytest.param("[Click](javascript:x)", r"\[Click\](javascript:x)", id="link"),
            pytest.param("![](x)", r"!\[\](x)", id="image"),
            pytest.param("a\n\n# Heading", "a # Heading", id="heading"),
            pytest.param("<img src=x onerror=y>", r"\<img src=x onerror=y\>", id="HTML"),
            pytest.param("**bold** `code` _it_ ~~no~~", r"\*\*bold\*\* \`code\` \_it\_ \~\~no\~\~", id="styles"),
            pytest.param("\\[x]", r"\\\[x\]", id="backslash"),
            pytest.param("&lt;b&gt;", r"\&lt;b\&gt;", id="entities"),
            pytest.param("ask @ada, see #12", "ask @\u2060ada, see #\u206012", id="mention and reference"),
            pytest.param("https://evil.example", "https:\u2060//evil.example", id="address"),
            pytest.param("WWW.evil.example", "WWW\u2060.evil.example", id="address without a scheme"),
            pytest.param("safe\u202etxet\u2066\u200b\u061c", "safetxet", id="direction"),
            pytest.param("x" * 1000, "x" * 199 + "…", id="long"),
        ],
    )
    def test_text_that_people_typed_is_shown_literally(self, reason: str, shown: str) -> None:
        assert f"- **{shown}** (`frz_1`)" in summary(blocked(freeze(1, reason=reason)))

    def test_name_of_the_grantor_is_shown_literally(self) -> None:
        grant = Grant("frz_1", 7, "[Eve](https://evil.example)\n# Now", None)
        verdict = judge([MergeCandidate("main", 7, (freeze(1),), excepted=frozenset({"frz_1"}), grants=(grant,))])
        assert r"granted by \[Eve\](https:" + "\u2060//evil.example) # Now, until" in summary(verdict)

    def test_title_has_no_characters_that_change_its_direction(self) -> None:
        assert title(blocked(freeze(1), branch="main\u202e/x")).startswith("Merging into main/x is frozen")


class TestOrdering:
    @pytest.mark.parametrize(
        ("draft", "auto_merge", "review_decision", "in_queue", "expected"),
        [
            pytest.param(False, False, None, True, QUEUED, id="what is queued could merge at any moment"),
            pytest.param(True, False, None, True, QUEUED, id="a draft in the queue too"),
            pytest.param(False, True, "review_required", False, AUTO_MERGE, id="auto-merge waits for no review"),
            pytest.param(False, False, "approved", False, APPROVED, id="approved"),
            pytest.param(False, False, None, False, APPROVED, id="no review required is as good as approved"),
            pytest.param(False, False, "changes_requested", False, OPEN, id="changes requested"),
            pytest.param(False, False, "review_required", False, OPEN, id="a review missing"),
            pytest.param(True, False, "approved", False, DRAFT, id="a draft cannot merge"),
        ],
    )
    def test_merge_rank_reflects_how_soon_a_pull_request_can_merge(
        self,
        draft: bool,
        auto_merge: bool,
        review_decision: str | None,
        in_queue: bool,
        expected: int,
    ) -> None:
        rank = merge_rank(draft=draft, auto_merge=auto_merge, review_decision=review_decision, in_queue=in_queue)
        assert rank == expected

    def test_merge_ranks_are_ordered_by_urgency(self) -> None:
        ranks = [QUEUED, AUTO_MERGE, APPROVED, OPEN, DRAFT, SUPERSEDED, NOTHING_OPEN]
        assert all(first < second for first, second in itertools.pairwise(ranks))


class TestFormerGlobs:
    @pytest.mark.parametrize(
        ("known", "before", "after", "expected"),
        [
            pytest.param([], ["release/*"], ["hotfix/*"], ["release/*"], id="a pattern that was taken away"),
            pytest.param(["a"], ["b"], [], ["a", "b"], id="all of them, the oldest first"),
            pytest.param(["a"], ["b"], ["a", "b"], [], id="none that is there again"),
            pytest.param([], ["a", "!b"], ["a", "!b"], [], id="none where something was excluded from the beginning"),
            pytest.param([], ["a"], ["a", "!b"], ["a"], id="one from which something is excluded now"),
            pytest.param(["a"], ["a", "!b"], ["a", "!b", "c"], ["a"], id="one from which something was excluded once"),
            pytest.param(["a"], ["a", "!b"], ["a"], [], id="none from which nothing is excluded any more"),
            pytest.param([], ["!a"], [], [], id="no exclusion"),
        ],
    )
    def test_former_globs_are_patterns_that_a_rule_may_still_have(
        self, known: list[str], before: list[str], after: list[str], expected: list[str]
    ) -> None:
        assert former_globs(known, before, after) == expected


def test_summary_of_a_pattern_names_the_branches_that_need_a_rule() -> None:
    freeze = CoveringFreeze("frz_1", "Release 4.2", NOON, NOON + timedelta(hours=2))
    verdict = judge_for_pattern([MergeCandidate("release/2", 1, ())], {"release/1": (freeze,)})
    assert title(verdict) == "Merging into release/1 is frozen until 2026-11-21 14:00 UTC"
    text = summary(verdict)
    assert "- `release/1`" in text
    assert "- **Release 4.2** (`frz_1`), since 2026-11-21 12:00 UTC, until 2026-11-21 14:00 UTC" in text
    assert "setting up enforcement" in text

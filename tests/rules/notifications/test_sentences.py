"""Sentences on what happened, and the subjects of mails of it."""

import pytest

from rules.notifications.kinds import NOTIFIED_ACTIONS, UPCOMING
from rules.notifications.sentences import MAX_TEXT, sentence_of, sentence_of_window
from rules.notifications.subjects import MAX_SUBJECT, name_of, subject_of

HOSTILE = "Buy at https://evil.example\r\nBcc: all@evil.example \u202e<b>{actor}</b> %s @here " + "x" * 500
ADA = {"type": "user", "id": "usr_ada", "name": "Ada"}
TARGET = {"type": "freeze", "id": "frz_1", "name": "Quarter-end close"}
WINDOW = {
    "scheduleId": "sch_1",
    "scheduleName": "Nights",
    "startsAt": "2026-11-23T17:00:00+01:00",
    "reason": "No staff",
}


@pytest.mark.parametrize("action", sorted(NOTIFIED_ACTIONS))
def test_every_action_has_a_sentence(action: str) -> None:
    details = {"targets": 40, "pendingTargets": 3, "who": "grace", "error": {"code": "x", "message": "It failed."}}
    sentence = sentence_of(action, ADA, TARGET, {**details, "reason": "A hotfix"})
    assert "Quarter-end close" in sentence
    assert "None" not in sentence


@pytest.mark.parametrize("action", sorted({*NOTIFIED_ACTIONS, UPCOMING}))
def test_every_action_has_a_subject_that_names_its_thing(action: str) -> None:
    subject = subject_of(action, {}, name_of(TARGET, {"type": "organization"}), 1234)
    assert subject.endswith(": The whole organisation and 1,234 more")
    assert len(subject) <= MAX_SUBJECT


def test_subject_of_a_freeze_that_is_not_known_to_block_says_no_more() -> None:
    assert subject_of("freeze.unprotected", {"unknown": 2}, "acme/web:main", 0) == "Freeze may not block: acme/web:main"
    assert subject_of("freeze.unprotected", {"unknown": 2, "unprotected": 1}, "x", 0) == "Freeze does not block: x"


@pytest.mark.parametrize("action", sorted(NOTIFIED_ACTIONS))
def test_hostile_texts_stay_one_short_line_without_addresses(action: str) -> None:
    texts = {"reason": HOSTILE, "who": HOSTILE, "error": {"message": HOSTILE}}
    sentence = sentence_of(action, {**ADA, "name": HOSTILE}, {**TARGET, "name": HOSTILE}, texts)
    assert sentence.isprintable() or "\u2060" in sentence
    assert not set("\r\n\u202e") & set(sentence)
    assert "https://" not in sentence
    assert "evil.example" not in sentence
    assert len(sentence) < 4 * MAX_TEXT


def test_sentence_of_a_window_names_its_start() -> None:
    assert sentence_of_window(WINDOW) == "Nights begins on 23 November 2026, 16:00 UTC: No staff."


NUMBERS = {"targets": 5, "blocked": 1, "partly": 1, "unprotected": 2, "unknown": 1, "late": 2}


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        (
            {"gaps": {"no_rule": 2, "deletion": 3}, "causes": ["no_rule"]},
            "No rule in force at GitHub requires our check, so everything can be merged. Set up enforcement.",
        ),
        (
            {"gaps": {"no_rule": 4, "suspended": 2}, "causes": ["late"]},
            "Checks of 2 are late. The GitHub App is suspended, so checks that say success stay.",
        ),
        ({"gaps": {"not_read": 1, "writing": 1}, "causes": ["late"]}, "Checks of 2 are late. Checks that say success"),
    ],
)
def test_sentence_of_an_unprotected_freeze_has_numbers_and_reason(details: dict[str, object], sentence: str) -> None:
    found = sentence_of("freeze.unprotected", ADA, TARGET, {**NUMBERS, **details})
    what = "A freeze does not block all of its branches (2 of 5 are not blocked, 1 of 5 is not known to be)"
    assert found.startswith(f"{what}: Quarter-end close. {sentence}")


def test_sentence_of_a_freeze_that_is_only_not_known_to_block_says_no_more() -> None:
    details = {"targets": 5, "blocked": 3, "unknown": 2, "gaps": {"outdated": 2}, "causes": ["outdated"]}
    found = sentence_of("freeze.unprotected", ADA, TARGET, details)
    what = "It is not known whether a freeze blocks all of its branches (2 of 5 are not known to be blocked)"
    assert found.startswith(f"{what}: Quarter-end close. GitHub's rules could not be read for a while")


def test_sentence_of_an_enforced_freeze_names_what_is_blocked_in_part() -> None:
    details = {"targets": 5, "blocked": 3, "partly": 2, "gaps": {"deletion": 2, "forgery": 1}}
    found = sentence_of("freeze.enforced", ADA, TARGET, details)
    what = "A freeze blocks merges into all of its branches (5, 2 only in part): Quarter-end close."
    assert found == f"{what} Everybody who may push can delete the branch and create it again."
    of_stop = sentence_of("freeze.blocked", ADA, TARGET, {**details, "partly": 0, "gaps": {}})
    assert of_stop.startswith("A stop blocks merges into all branches of a freeze (")
    of_all = sentence_of("freeze.enforced", ADA, TARGET, {**details, "partly": 0, "gaps": {}})
    assert of_all == "A freeze blocks merges into all of its branches (5): Quarter-end close."

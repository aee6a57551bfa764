"""`ETag` and `If-Match` of schedules: a change that was made in between is not lost."""

from collections.abc import Callable

import httpx
import pytest

from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.requests import DAILY, FIRST, UNKNOWN

Write = Callable[[Caller, str, str | None], httpx.Response]
OTHER = '"0000000000000000000000"'


def patch(caller: Caller, path: str, if_match: str | None, name: str = "Renamed") -> httpx.Response:
    return caller.patch(path, {"name": name}, headers={} if if_match is None else {"If-Match": if_match})


def delete(caller: Caller, path: str, if_match: str | None) -> httpx.Response:
    return caller.delete(path, headers={} if if_match is None else {"If-Match": if_match})


@pytest.fixture
def answer(key: Caller) -> httpx.Response:
    return key.post("/v1/schedules", FIRST)


@pytest.fixture
def path(answer: httpx.Response) -> str:
    return str(answer.headers["Location"])


class TestEntityTag:
    def test_tag_is_the_same_in_every_response_about_a_schedule(
        self, key: Caller, answer: httpx.Response, path: str
    ) -> None:
        first = key.get(path)
        assert first.headers["ETag"] == answer.headers["ETag"]
        assert first.headers["Cache-Control"] == "private, no-cache"
        unchanged = key.patch(path, {})
        assert unchanged.headers["ETag"] == first.headers["ETag"]
        changed = key.patch(path, {"name": "Renamed", "recurrence": {**DAILY, "interval": 2}})
        assert changed.headers["ETag"] == key.get(path).headers["ETag"] != first.headers["ETag"]

    def test_unchanged_schedule_is_not_sent_again(self, key: Caller, path: str) -> None:
        tag = key.get(path).headers["ETag"]
        for sent in (tag, f"W/{tag}", f"{OTHER}, {tag}", "*"):
            again = key.send("GET", path, headers={"If-None-Match": sent})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert key.send("GET", path, headers={"If-None-Match": OTHER}).status_code == 200

    def test_tag_changes_with_the_next_occurrence(self, key: Caller, path: str) -> None:
        tag = key.get(path).headers["ETag"]
        key.post(f"{path}/skip-next")
        refusal(patch(key, path, tag), 412, "precondition_failed")


class TestIfMatch:
    def test_change_takes_effect_when_the_tag_is_listed(self, key: Caller, path: str) -> None:
        forms = ["{}", "*", f"{OTHER}, {{}}", f"{{}},{OTHER}", ", {} ,", f'W/{OTHER} , {{}}, "a,b"']
        for number, form in enumerate(forms):
            tag = key.get(path).headers["ETag"]
            assert patch(key, path, form.format(tag), f"Name {number}").is_success, form

    @pytest.mark.parametrize("write", [patch, delete])
    def test_write_is_refused_when_no_tag_matches_strongly(
        self, acme: Tenant, key: Caller, answer: httpx.Response, path: str, write: Write
    ) -> None:
        for form in (OTHER, "W/{}", '""', '"*"', f'{OTHER}, "x"'):
            refusal(write(key, path, form.format(answer.headers["ETag"])), 412, "precondition_failed")
        assert key.get(path).headers["ETag"] == answer.headers["ETag"]
        assert acme.audit() == ["schedule.created"]

    @pytest.mark.parametrize("write", [patch, delete])
    def test_malformed_if_match_is_invalid(self, key: Caller, path: str, write: Write) -> None:
        for form in ("", "abc", '"abc', 'w/"abc"', '"a" "b"', '*, "a"', '"a b"', "W/*", "'a'"):
            error = refusal(write(key, path, form), 400, "invalid_parameter")
            assert [row["path"] for row in error["details"]] == ["If-Match"], form

    def test_if_match_in_several_lines_is_one_list(self, key: Caller, answer: httpx.Response, path: str) -> None:
        lines = [("If-Match", OTHER), ("If-Match", answer.headers["ETag"]), ("Authorization", f"Bearer {key.token}")]
        assert key.http.patch(path, headers=lines, json={"name": "Renamed"}).is_success

    @pytest.mark.parametrize("write", [patch, delete])
    def test_missing_schedule_is_not_found_before_its_tag_matters(self, key: Caller, write: Write) -> None:
        for tag in ("*", OTHER):
            refusal(write(key, f"/v1/schedules/{UNKNOWN}", tag), 404, "schedule_not_found")

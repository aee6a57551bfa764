"""What a process remembers is bounded, and nobody can change it."""

from datetime import UTC, datetime, timedelta

from app.edge.answer_memory import AnswerMemory
from app.edge.request_context import Reply
from rules.errors import ServiceError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def answer(body: bytes = b"{}") -> Reply:
    return Reply(200, [(b"etag", b'"1"')], body)


def test_memory_forgets_the_least_recently_used_answer_first() -> None:
    memory = AnswerMemory(max_bytes=3500)
    for name in ("a", "b", "c"):
        memory.keep((name,), "v", NOW, answer(b"x" * 600), LATER)
    assert memory.find(("a",), "v", NOW) is not None
    memory.keep(("d",), "v", NOW, answer(b"x" * 600), LATER)
    assert [name for name in "abcd" if memory.find((name,), "v", NOW)] == ["a", "c", "d"]


def test_memory_counts_an_answer_once_that_is_computed_again() -> None:
    memory = AnswerMemory(max_bytes=3500)
    for version in map(str, range(10)):
        memory.keep(("a",), version, NOW, answer(b"x" * 600), LATER)
        memory.keep(("b",), version, NOW, answer(b"x" * 600), LATER)
    assert memory.find(("a",), "9", NOW) is not None
    assert memory.find(("b",), "9", NOW) is not None


def test_memory_keeps_no_answer_larger_than_itself() -> None:
    memory = AnswerMemory(max_bytes=3500)
    memory.keep(("a",), "v", NOW, answer(b"x" * 4000), LATER)
    assert memory.find(("a",), "v", NOW) is None


def test_answer_that_does_not_last_is_not_kept() -> None:
    memory = AnswerMemory()
    memory.keep(("a",), "v", NOW, answer(), None)
    memory.keep(("b",), "v", NOW, answer(), NOW)
    assert memory.find(("a",), "v", NOW) is None
    assert memory.find(("b",), "v", NOW) is None


def test_headers_of_a_request_are_not_remembered() -> None:
    memory = AnswerMemory()
    given = answer()
    memory.keep(("a",), "v", NOW, given, LATER)
    given.headers.append((b"ratelimit-remaining", b"1"))
    found = memory.find(("a",), "v", NOW)
    assert isinstance(found, Reply)
    found.headers.append((b"ratelimit-remaining", b"2"))
    again = memory.find(("a",), "v", NOW)
    assert isinstance(again, Reply)
    assert again.headers == [(b"etag", b'"1"')]


def test_refusal_is_another_error_each_time_it_is_remembered() -> None:
    memory = AnswerMemory()
    memory.keep(("a",), "v", NOW, ServiceError("branch_not_found", "No such branch."), LATER)
    found, again = (memory.find(("a",), "v", NOW) for _ in range(2))
    assert isinstance(found, ServiceError)
    assert isinstance(again, ServiceError)
    assert found is not again
    assert (again.code, again.message) == ("branch_not_found", "No such branch.")

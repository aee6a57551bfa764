"""Answers that this process remembers, each under the version of the freezes that it was computed from.

The version is read with the credential of each request (`models.freezes.FreezeVersion`). A change that was committed
before is in what is read then, so an answer under the same version is what a query would say, in every process, as long
as time alone does not change it: `since` and `until` bound it, by the clock of the database.

An answer is computed after its version was read. It may show a change that is newer, and never lacks one.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.edge.request_context import Reply, RequestContext
from rules.access.permissions import Principal
from rules.errors import ServiceError

MAX_BYTES = 8 * 2**20
"""Of all answers of a process: those of 5,000 branches."""
_BYTES_OF_AN_ENTRY = 500
"""What an answer takes besides body and question."""
_WITHOUT_BODY = (
    (b"content-type", (None, b"application/json")),  # many clients send it with every request
    (b"content-length", (None, b"0")),
    (b"transfer-encoding", (None,)),
)

Question = tuple[Any, ...]
"""What is asked, of which organisation: an operation, and its parameters as they were sent."""


Answer = Reply | ServiceError
"""What a request is answered, or refused with."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    version: str
    since: datetime
    until: datetime
    answer: Answer


class AnswerMemory:
    """The answers of one process, of which the least recently used is forgotten first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._answers: OrderedDict[Question, _Remembered] = OrderedDict()

    def find(self, question: Question, version: str, now: datetime) -> Answer | None:
        """Return the answer, to be sent or raised once; None if there is none that is right now."""
        found = self._answers.get(question)
        if found is None or found.version != version or not found.since <= now < found.until:
            return None
        self._answers.move_to_end(question)
        return _copy(found.answer)

    def keep(self, question: Question, version: str, now: datetime, answer: Answer, until: datetime | None) -> None:
        """Remember an answer that was computed at `now`, unless it does not last."""
        if until is None or until <= now:
            return
        before = self._answers.pop(question, None)
        if before is not None:
            self._bytes -= _size(question, before)
        kept = self._answers[question] = _Remembered(version, now, until, _copy(answer))
        self._bytes += _size(question, kept)
        while self._bytes > self._max_bytes:
            self._bytes -= _size(*self._answers.popitem(last=False))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, with the version of freezes that was read for it, and when."""

    memory: AnswerMemory
    question: Question
    version: str
    now: datetime

    def find(self) -> Answer | None:
        """Return the remembered answer, to be sent or raised once; None if there is none that is right now."""
        return self.memory.find(self.question, self.version, self.now)

    def keep(self, answer: Answer, until: datetime | None) -> None:
        """Remember the answer, if it lasts."""
        self.memory.keep(self.question, self.version, self.now, answer, until)


def _copy(answer: Answer) -> Answer:
    """Return an answer as it was computed: requests add their headers to it, and errors the places they pass."""
    if isinstance(answer, ServiceError):
        return ServiceError(answer.code, answer.message, details=answer.details)
    return Reply(answer.status, list(answer.headers), answer.body, cacheable=answer.cacheable)


def _size(question: Question, remembered: _Remembered) -> int:
    asked = sum(len(part) for part in question if isinstance(part, bytes | str))
    answer = remembered.answer
    return _BYTES_OF_AN_ENTRY + asked + len(answer.message if isinstance(answer, ServiceError) else answer.body)


def question_of(request: RequestContext, principal: Principal, *, reads_query: bool) -> Question | None:
    """Return what is asked, if the address alone says so; None for a request that has a body, or names another type.

    `reads_query`: what stands behind the path is a part of the question. In the compatibility API it is the credential.
    """
    if any(request.header(name) not in usual for name, usual in _WITHOUT_BODY):
        return None
    _names, values = request.scope["route"]
    return (principal.organization_id, *values, request.scope["query_string"] if reads_query else b"")

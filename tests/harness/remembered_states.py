"""What a process would remember of the freeze state, compared with what is computed after whatever has happened."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from services.freezes.state import State


class _Remembered(NamedTuple):
    version: str
    since: datetime
    until: datetime
    answer: dict[str, Any]


@dataclass(slots=True)
class RememberedStates:
    """Answers by organisation and question, as long as version and clock say that they are right."""

    known: dict[tuple[str, ...], _Remembered] = field(default_factory=dict)

    def compare(self, question: tuple[str, ...], version: str, now: datetime, computed: State) -> None:
        """Fail if another answer would be given from memory than was computed now; remember the latter."""
        answer, until = computed
        known = self.known.get(question)
        if known is not None and known.version == version and known.since <= now < known.until:
            assert known.answer == answer, f"{question} is remembered as it was"
        elif until > now:
            self.known[question] = _Remembered(version, now, until, answer)

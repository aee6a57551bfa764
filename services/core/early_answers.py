"""Early answers: for requests without a credential that change nothing, before they get a thread and a transaction."""

from collections.abc import Callable
from typing import Any, TypeVar

EarlyAnswer = Callable[..., object | None]
"""Gets the `Ports` and the handler's arguments, on the event loop; returns None if the handler is to answer."""
Handler = TypeVar("Handler", bound=Callable[..., Any])
_NAME = "early_answer"


def answers_early(answer: EarlyAnswer) -> Callable[[Handler], Handler]:
    """Have `answer` asked before the handler that is decorated."""

    def decorate(handler: Handler) -> Handler:
        setattr(handler, _NAME, answer)
        return handler

    return decorate


def early_answer_of(handler: Callable[..., Any]) -> EarlyAnswer | None:
    """Return what is asked before a handler, if anything is."""
    found: EarlyAnswer | None = getattr(handler, _NAME, None)
    return found

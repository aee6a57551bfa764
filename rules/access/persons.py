"""Persons behind actors: whether a request and a decision, or a grant, come from the same one.

A key acts as the person who made it, and an account at GitHub as the member it is linked to. What is nobody's, such as
a key that an operator made, stands for itself.
"""

from dataclasses import dataclass
from typing import Literal

Sameness = Literal["same", "different", "unknown"]


@dataclass(frozen=True, slots=True)
class Person:
    """Who is behind an actor."""

    kind: str
    """`user`, or the type of an actor behind whom nobody is known, such as `api_key` or `code_host`."""
    id: str | None
    github_account: str | None = None
    """The id of the account at GitHub that is known to be theirs."""


def same_person(one: Person, other: Person) -> Sameness:
    """Return whether two persons are the same one.

    It is unknown of an account at GitHub that is nobody's, and a member whose own account is not known.
    """
    if one.id is not None and (one.kind, one.id) == (other.kind, other.id):
        return "same"
    for account, member in ((one, other), (other, one)):
        if account.kind == "code_host" and member.kind == "user":
            if member.github_account is None:
                return "unknown"
            return "same" if member.github_account == account.id else "different"
    return "different"

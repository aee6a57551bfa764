"""What people type after `/freeze`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 2000
VERBS = ("status", "start", "lift", "request", "subscribe", "unsubscribe", "link", "unlink", "help")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_LINKED = re.compile(r"<([^<>|]+)(?:\|[^<>]*)?>")
_EVENT = re.compile(r"[a-z]+\.[a-z_]+")
_EVERYTHING = ("everything", "all", "*")
_WILDCARDS = frozenset("*?!")


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, and the words after it."""

    verb: str
    """One of VERBS, or what was typed instead."""
    words: Sequence[str]

    @property
    def is_known(self) -> bool:
        """True for one of VERBS."""
        return self.verb in VERBS

    @property
    def rest(self) -> str:
        """The words after the verb as one text."""
        return " ".join(self.words)


def read_command(text: str) -> Command:
    """Return what was typed; nothing is `help`. Slack sends entities for `&`, `<`, `>`, and addresses in `<>`."""
    text = _LINKED.sub(r"\1", text[:MAX_TEXT])
    for entity, letter in _ENTITIES:
        text = text.replace(entity, letter)
    verb, *rest = text.split() or ["help"]
    return Command(verb.lower(), tuple(rest))


def read_subject(text: str) -> tuple[str, str | None]:
    """Return repository and branch of `owner/name`, `owner/name#branch` or `owner/name:branch`."""
    match = re.fullmatch(r"([^#:\s]+)(?:[#:](\S+))?", text)
    return (match[1], match[2]) if match else (text, None)


def read_scope(text: str) -> dict[str, Any]:
    """Return the scope that a person wrote, as the API takes it. Raise ValueError, in words for them, if it is none.

    `everything`; repositories and globs of them (`acme/web acme/api-*`); each may have a branch (`acme/web#main`), the
    same for all.
    """
    parts = text.replace(",", " ").split()
    if not parts:
        raise ValueError("Write what to freeze: everything, or repositories such as acme/web or acme/web#main.")
    pairs = [read_subject(part) for part in parts]
    branches = sorted({branch for _, branch in pairs if branch is not None})
    if len(branches) > 1 or (branches and any(branch is None for _, branch in pairs)):
        raise ValueError("Give the same branch to all repositories, or none to any.")
    repositories = [repository for repository, _ in pairs]
    if any(name.lower() in _EVERYTHING for name in repositories):
        if len(parts) > 1 or branches:
            raise ValueError("Write everything alone, or write globs such as acme/*#main.")
        return {"type": "organization"}
    if any(_WILDCARDS & set(name) for name in repositories):
        scope: dict[str, Any] = {"type": "glob", "patterns": repositories}
    elif len(repositories) == 1 and branches and not _WILDCARDS & set(branches[0]):
        return {"type": "branch", "repository": repositories[0], "branch": branches[0]}
    else:
        scope = {"type": "repositories", "repositories": repositories}
    return {**scope, "branches": branches} if branches else scope


def read_subscription(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the events and the patterns of repositories that a person wrote, in any order."""
    parts = [part for word in words for part in word.split(",") if part]
    events = [part for part in parts if _EVENT.fullmatch(part)]
    return list(dict.fromkeys(events)), [part for part in parts if part not in events]

"""Which passwords are refused: short ones, those that everybody tries first, and those made of one's own address.

NIST SP 800-63B, 5.1.1.2: length and a list of common passwords, and no rules on which characters there must be.
"""

import re
import unicodedata
from functools import cache

SHORTEST = 10
LONGEST = 200
_SHORTEST_NAME = 3
_LONG_NAME = 5
_MOST_AROUND = 6
_AROUND = re.compile(r"[\W\d_]+")


def readable(password: str) -> str:
    """Return the password in the one form that is hashed, however a keyboard composed its characters (NFKC)."""
    return unicodedata.normalize("NFKC", password)


def find_weakness(password: str, email: str) -> str | None:
    """Return what is wrong with a new password for the account of `email`, or None."""
    if not SHORTEST <= len(password) <= LONGEST:
        return f"A password needs {SHORTEST} to {LONGEST} characters."
    lower = readable(password).casefold()
    if is_common(lower):
        return "This password is one of those that everybody tries first."
    if _contains_name(lower, email.partition("@")[0].casefold()):
        return "The password may not contain what stands before the @ of your e-mail address."
    return None


def _contains_name(password: str, name: str) -> bool:
    """Tell whether a name is in a password; a short one as a word of its own: `eve` is in `seven` by chance."""
    if len(name) >= _LONG_NAME:
        return name in password
    own_word = rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])"
    return len(name) >= _SHORTEST_NAME and re.search(own_word, password) is not None


def is_common(password: str) -> bool:
    """Tell whether a password in lower case is on the list, also with a few digits or signs before or behind it."""
    if password in _common() or len(set(password)) == 1:
        return True
    core = _AROUND.sub("", password, count=1) if _AROUND.match(password) else password
    core = core[: len(core) - len(found[0])] if (found := re.search(rf"{_AROUND.pattern}\Z", core)) else core
    return len(password) - len(core) <= _MOST_AROUND and core in _common()


@cache
def _common() -> frozenset[str]:
    """Return the 30,000 most frequent passwords, as zxcvbn has them from public leaks."""
    from zxcvbn.frequency_lists import FREQUENCY_LISTS

    return frozenset(FREQUENCY_LISTS["passwords"])

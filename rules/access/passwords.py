"""Rules for new passwords: not short, not common, not made of the e-mail address.

NIST SP 800-63B, 5.1.1.2: a minimum length and a list of common passwords, no rules on character classes.
"""

import re
import unicodedata
from functools import cache

MIN_LENGTH = 10
MAX_LENGTH = 200
_MIN_NAME_LENGTH = 3
_LONG_NAME_LENGTH = 5
_MAX_AFFIX_LENGTH = 6
_AFFIX = re.compile(r"[\W\d_]+")


def normalize(password: str) -> str:
    """Return the form of the password that is hashed: NFKC, so that keyboards do not matter."""
    return unicodedata.normalize("NFKC", password)


def find_weakness(password: str, email: str) -> str | None:
    """Return why a new password for the account of `email` is rejected, or None."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"Password must have {MIN_LENGTH} to {MAX_LENGTH} characters."
    lower = normalize(password).casefold()
    if is_common(lower):
        return "This password is too common."
    if _contains_name(lower, email.partition("@")[0].casefold()):
        return "Password must not contain the part of your e-mail address before the @."
    return None


def _contains_name(password: str, name: str) -> bool:
    """True if the password contains the name; a short name only as a separate word (`eve` is in `seven` by chance)."""
    if len(name) >= _LONG_NAME_LENGTH:
        return name in password
    own_word = rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])"
    return len(name) >= _MIN_NAME_LENGTH and re.search(own_word, password) is not None


def is_common(password: str) -> bool:
    """True if a lower-case password is on the list, also with a few digits or symbols before or after it."""
    if password in _common() or len(set(password)) == 1:
        return True
    core = _AFFIX.sub("", password, count=1) if _AFFIX.match(password) else password
    core = core[: len(core) - len(found[0])] if (found := re.search(rf"{_AFFIX.pattern}\Z", core)) else core
    return len(password) - len(core) <= _MAX_AFFIX_LENGTH and core in _common()


@cache
def _common() -> frozenset[str]:
    """Return the 30,000 most common passwords (zxcvbn's list from public leaks)."""
    from zxcvbn.frequency_lists import FREQUENCY_LISTS

    return frozenset(FREQUENCY_LISTS["passwords"])

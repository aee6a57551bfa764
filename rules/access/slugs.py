"""Slugs: short names for addresses, made from names that people chose."""

import re
import unicodedata

LONGEST_SLUG = 40
NAMELESS = "organization"
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def slug_of(name: str) -> str:
    """Return `name` in lower-case ASCII letters, digits and single hyphens, at most 40 of them.

    Accents are dropped; a name of which nothing is left becomes `organization`.
    """
    plain = unicodedata.normalize("NFKD", name.replace("'", "")).encode("ascii", "ignore").decode().lower()
    return _NOT_PLAIN.sub("-", plain).strip("-")[:LONGEST_SLUG].rstrip("-") or NAMELESS

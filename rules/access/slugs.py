"""Slugs: short names for URLs, derived from display names."""

import re
import unicodedata

MAX_SLUG_LENGTH = 40
FALLBACK = "organization"
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def slug_of(name: str) -> str:
    """Return `name` as lower-case ASCII letters, digits and single hyphens, at most 40 characters.

    Accents are dropped. A name without any such character becomes `organization`.
    """
    plain = unicodedata.normalize("NFKD", name.replace("'", "")).encode("ascii", "ignore").decode().lower()
    return _NOT_PLAIN.sub("-", plain).strip("-")[:MAX_SLUG_LENGTH].rstrip("-") or FALLBACK

"""Client id metadata documents: an OAuth client is identified by the https address of a document that describes it.

By the draft OAuth Client ID Metadata Document. Pure, so that every rule has a table of cases;
`integrations/client_documents.py` fetches documents.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from rules.access.redirect_uris import is_plain_address, is_redirect_uri, redirect_matches
from rules.plain_text import BLANK

MAX_CLIENT_ID_LENGTH = 500
MAX_NAME_LENGTH = 80
MAX_REDIRECT_URIS = 20
MAX_REDIRECT_URI_LENGTH = 1000
MIN_FRESHNESS = timedelta(minutes=1)
MAX_FRESHNESS = timedelta(hours=24)
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_MAX_MARKS = 3
"""Combining marks on one character; more of them would cover other lines."""
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_NOT_STORED = re.compile(r"(?:^|,)\s*no-(?:store|cache)\b", re.IGNORECASE)


class ClientRefusedError(Exception):
    """A client cannot be used; the message is for the person in front of the browser."""


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """What a document says of its client."""

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]

    @property
    def host(self) -> str:
        """The host that vouches for the client."""
        return urlsplit(self.client_id).netloc

    def may_redirect_to(self, uri: str) -> bool:
        """True if the address is one of the client's."""
        return any(redirect_matches(registered, uri) for registered in self.redirect_uris)


def is_document_address(client_id: str) -> bool:
    """True if a client id is the address of a document: https, a path, no dot segments, fragment or user name."""
    if len(client_id) > MAX_CLIENT_ID_LENGTH or not is_plain_address(client_id):
        return False
    try:
        parts = urlsplit(client_id)
        valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    segments = [segment.lower().replace("%2e", ".") for segment in parts.path.split("/")]
    return (
        valid
        and parts.scheme == "https"
        and client_id.startswith("https://")
        and _HOST.fullmatch(parts.netloc) is not None
        and len(parts.path) > 1
        and not {".", ".."} & set(segments)
    )


def parse_document(client_id: str, raw: bytes) -> dict[str, Any]:
    """Return a fetched document as JSON. Raise ClientRefusedError if it is not a valid one of this client."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ClientRefusedError("The document of the client is not JSON.") from None
    if not isinstance(document, dict):
        raise ClientRefusedError("The document of the client is not a JSON object.")
    read_document(client_id, document)
    return document


def read_document(client_id: str, document: Mapping[str, Any]) -> ClientDocument:
    """Return what a document says of its client. Raise ClientRefusedError if it breaks a rule."""
    if document.get("client_id") != client_id:
        raise ClientRefusedError("The document describes another client.")
    if any(name.startswith("client_secret") for name in document):
        raise ClientRefusedError("The document of the client holds a secret.")
    if document.get("token_endpoint_auth_method", "none") != "none":
        raise ClientRefusedError("The client requires a way to authenticate that is not supported.")
    name, uris = document.get("client_name"), document.get("redirect_uris")
    shown = _shown(name) if isinstance(name, str) else ""
    if not shown:
        raise ClientRefusedError("The document of the client has no client_name.")
    if not isinstance(uris, list) or not 1 <= len(uris) <= MAX_REDIRECT_URIS:
        raise ClientRefusedError("The document of the client has no redirect_uris, or too many.")
    if not all(isinstance(uri, str) and len(uri) <= MAX_REDIRECT_URI_LENGTH and is_redirect_uri(uri) for uri in uris):
        raise ClientRefusedError("A redirect_uri of the client is neither https nor on the loopback.")
    return ClientDocument(client_id, shown, tuple(uris))


def uses_refresh_tokens(document: Mapping[str, Any]) -> bool:
    """True unless a document lists the grant types of its client without this one."""
    grant_types = document.get("grant_types")
    return not isinstance(grant_types, list) or "refresh_token" in grant_types


def _shown(name: str) -> str:
    """Return a name as one short line that stays in its place: nothing invisible, and few marks on each character."""
    visible, marks = "", 0
    for character in unicodedata.normalize("NFC", name):
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        if marks <= _MAX_MARKS:
            visible += character if character.isprintable() and character not in BLANK else " "
    return " ".join(visible.split())[:MAX_NAME_LENGTH].rstrip()


def freshness(cache_control: str) -> timedelta:
    """Return how long a document may be used without fetching it again, by its `Cache-Control`."""
    found = _MAX_AGE.search(cache_control)
    if found is None or _NOT_STORED.search(cache_control):
        return MIN_FRESHNESS
    return min(max(timedelta(seconds=int(found[1])), MIN_FRESHNESS), MAX_FRESHNESS)

"""Fetches client id metadata documents from addresses that strangers choose: 5 KB and 5 seconds in all."""

import logging
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from integrations.guarded_https import (
    GuardedHttps,
    Limits,
    NotPublicError,
    Resolve,
    TooSlowError,
    UnreachableError,
    resolve,
)
from rules.access.client_documents import ClientRefusedError

logger = logging.getLogger(__name__)

MAX_BYTES = 5 * 1024
TIMEOUT = 5.0
"""Seconds for everything: the name, the connection and the document."""


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A document, and the header that says for how long it may be kept."""

    body: bytes
    cache_control: str


class ClientDocuments:
    """Fetches documents; with `loopback`, for a service on one machine, also from that machine."""

    def __init__(
        self,
        *,
        loopback: bool = False,
        context: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
        timeout: float = TIMEOUT,
    ) -> None:
        self._https = GuardedHttps(Limits(timeout, MAX_BYTES + 1), loopback, context, resolve)

    def fetch(self, client_id: str) -> FetchedDocument:
        """Return the document at an address that is a valid client id. Raise ClientRefusedError."""
        host = urlsplit(client_id).hostname or ""
        try:
            response = self._https.send("GET", client_id, {"Accept": "application/json"})
        except TooSlowError:
            raise ClientRefusedError("The document of the client came too slowly.") from None
        except NotPublicError:
            raise ClientRefusedError(f"{host} is not a host of the public internet.") from None
        except UnreachableError as error:
            raise ClientRefusedError(f"{host} cannot be reached, or does not speak https: {error}") from None
        if response.status != 200:
            raise ClientRefusedError(f"The document of the client is not there: {host} answered {response.status}.")
        media = response.headers.get_content_type() if "content-type" in response.headers else ""
        if media != "application/json" and not media.endswith("+json"):
            raise ClientRefusedError("The document of the client is not JSON.")
        if len(response.body) > MAX_BYTES:
            raise ClientRefusedError(f"The document of the client is larger than {MAX_BYTES} bytes.")
        return FetchedDocument(response.body, ", ".join(response.headers.get_all("cache-control", ())))

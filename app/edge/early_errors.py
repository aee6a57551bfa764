"""Rate limits of requests that are refused before their credential is checked: an unknown route or method, maintenance.

They count like reads, so that every response to a valid credential has the headers.
"""

import asyncio
import logging

import psycopg

from app.edge.authentication import Credentials
from app.edge.classic_requests import authorization_of
from app.edge.rate_limits import RateLimits
from app.edge.request_context import RequestContext
from rules.errors import ServiceError
from services.core.tokens import SESSION_PREFIX

logger = logging.getLogger(__name__)

EARLY_CODES = frozenset({"not_found", "method_not_allowed", "maintenance"})
_TIMEOUT_SECONDS = 1.0
"""The response does not wait longer for a database that does not answer."""


class EarlyErrors:
    """Counts refused requests that have a valid credential."""

    def __init__(self, credentials: Credentials, rate_limits: RateLimits, classic_prefix: str) -> None:
        self._credentials = credentials
        self._classic_prefix = classic_prefix
        self._rate_limits = rate_limits

    async def count(self, request: RequestContext, code: str | None) -> None:
        """Set the budget of a request that was refused with `code`, if nothing else has and its credential is valid."""
        if request.budget is not None or code not in EARLY_CODES:
            return
        try:
            authorization = self._authorization(request)
            if authorization is None:
                return
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                if authorization.partition(b" ")[2].strip().startswith(SESSION_PREFIX.encode()):
                    identity = await self._credentials.identify_sign_in(request.header, write=False)
                else:
                    identity = await self._credentials.identify(authorization)
                request.budget = await self._rate_limits.count(identity.principal, write=False)
        except ServiceError:
            return  # no valid credential
        except (psycopg.Error, OSError, TimeoutError) as error:
            logger.warning("a credential could not be checked: %s", type(error).__name__)

    def _authorization(self, request: RequestContext) -> bytes | None:
        if request.scope["path"].startswith(self._classic_prefix):
            return authorization_of(request, {})
        return request.header(b"authorization")

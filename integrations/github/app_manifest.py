"""The exchange of a manifest's code for the App that GitHub has registered."""

from dataclasses import dataclass, field
from urllib.parse import quote

import requests

_TIMEOUT = 30.0


class ManifestError(Exception):
    """GitHub did not give the App; the message says why, and holds no secret."""


@dataclass(frozen=True, slots=True)
class RegisteredApp:
    """An App that was registered from a manifest, with its secrets."""

    id: int
    slug: str
    html_url: str
    client_id: str
    client_secret: str = field(repr=False)
    webhook_secret: str = field(repr=False)
    private_key: str = field(repr=False)


def exchange_code(api_url: str, code: str) -> RegisteredApp:
    """Return the App of a code, which is valid once and for an hour. Raise ManifestError."""
    url = f"{api_url}/app-manifests/{quote(code, safe='')}/conversions"
    try:
        answer = requests.post(
            url, headers={"Accept": "application/vnd.github+json"}, timeout=_TIMEOUT, allow_redirects=False
        )
        if answer.status_code != 201:
            raise ManifestError(f"GitHub answered {answer.status_code}: the code was used or is older than an hour")
        given = answer.json()
        return RegisteredApp(
            int(given["id"]),
            given["slug"],
            given["html_url"],
            given["client_id"],
            given["client_secret"],
            given["webhook_secret"],
            given["pem"],
        )
    except (requests.RequestException, KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"GitHub's answer could not be read ({type(error).__name__})") from None

"""Registration of an App from a manifest: the person is taken to have pressed the button at once.

The page takes a form with the field `manifest` and sends the person to the manifest's `redirect_url` with a `code` and
the `state` that came. Within an hour the code is exchanged, once and without a credential, for the App and its secrets.
The new App takes the place of the App that was registered here. Source: GitHub's page "Registering a GitHub App from a
manifest" and the operation `apps/create-from-manifest` of its OpenAPI description.
"""

import re
import secrets
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tools.fake_github.github import FakeGitHub
from tools.fake_github.model.installations import EVENTS, PERMISSIONS
from tools.fake_github.model.refusals import Refusal, not_found
from tools.fake_github.payloads.accounts import app_json
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

PAGE = re.compile(r"(/organizations/(?P<organization>[^/]+))?/settings/apps/new")
CONVERSION = re.compile(r"/app-manifests/(?P<code>[^/]+)/conversions")
CODE_LIFETIME = timedelta(hours=1)


def answer_manifest(github: FakeGitHub, incoming: Incoming) -> Answer | None:
    """Answer a request of this flow; None if it is another one."""
    if incoming.method != "POST":
        return None
    try:
        if PAGE.fullmatch(incoming.path):
            return _register(github, incoming)
        if found := CONVERSION.fullmatch(incoming.path):
            return _convert(github, found["code"])
    except Refusal as refusal:
        return Answer(refusal.status, {"message": refusal.message})
    return None


def _register(github: FakeGitHub, incoming: Incoming) -> Answer:
    """Keep a valid manifest under a code, and send the person back with it."""
    manifest = _parsed(dict(parse_qsl(incoming.raw.decode())).get("manifest", ""))
    target = str(manifest["redirect_url"])
    code = secrets.token_hex(20)
    github.manifests[code] = manifest, github.world.clock() + CODE_LIFETIME
    github.oauth.issued.append(code)
    back = urlencode({"code": code, "state": incoming.query.get("state", "")})
    return Answer(302, None, {"Location": f"{target}{'&' if '?' in target else '?'}{back}"})


def _parsed(text: str) -> dict[str, Any]:
    """Return a manifest, or refuse one that GitHub would show as invalid."""
    try:
        manifest = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refusal(422, "Invalid manifest: not JSON") from error
    hook = manifest.get("hook_attributes", {})
    addresses = [manifest.get("url"), manifest.get("redirect_url"), *manifest.get("callback_urls", ()), hook.get("url")]
    if any(urlsplit(str(each)).scheme not in {"http", "https"} for each in addresses):
        raise Refusal(422, "Invalid manifest: url, redirect_url, callback_urls and hook_attributes.url must be URLs")
    if manifest.get("setup_url") and manifest.get("request_oauth_on_install"):
        raise Refusal(422, "Invalid manifest: setup_url cannot be set if OAuth is requested during installation")
    unknown = sorted(set(manifest.get("default_permissions", {})) - set(PERMISSIONS))
    unknown += sorted(set(manifest.get("default_events", ())) - set(EVENTS))
    if unknown:
        raise Refusal(422, f"Invalid manifest: {', '.join(unknown)}")
    return dict(manifest)


def _convert(github: FakeGitHub, code: str) -> Answer:
    """Register the App of a code and show its secrets, once."""
    manifest, ends = github.manifests.pop(code, ({}, github.world.clock()))
    if github.world.clock() >= ends:
        raise not_found()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    github.app_id = max(github.world.apps, default=0) + 1
    github.app_slug = re.sub(r"[^a-z0-9]+", "-", str(manifest["name"]).lower()).strip("-")
    github.app_public_key = public
    github.register()
    github.app.permissions = dict(manifest.get("default_permissions", {}))
    github.app.events = sorted(manifest.get("default_events", ()))
    webhook_secret, client_secret = secrets.token_hex(20), secrets.token_hex(20)
    github.settings.webhook_url = manifest["hook_attributes"]["url"]
    github.settings.webhook_secret = webhook_secret
    github.settings.setup_url = next(iter(manifest.get("callback_urls", ())), None)
    github.oauth.app_client_secret = client_secret
    github.oauth.issued += [pem, webhook_secret, client_secret]
    github.world.changes += 1
    shown = {"client_secret": client_secret, "webhook_secret": webhook_secret, "pem": pem}
    return Answer(201, {**app_json(github.view, github.app), **shown})

"""The service behind nginx, with the configuration that is shipped."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import factories
from tests.harness.certificates import CERTIFICATE, certified
from tests.harness.sessions import committing
from tools.embedded.ports import free_ports

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PATIENCE = 10.0

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx"
CONFIGURATION = """
daemon off;
pid {directory}/pid;
error_log stderr;
events {{}}
http {{
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  include {directory}/*.conf;
}}
"""


@pytest.fixture
def proxy(served: str, tmp_path: Path) -> Iterator[httpx.Client]:
    if NGINX is None:
        pytest.skip("nginx is not on this machine (Debian: apt-get install nginx)")
    tls, [port, plain_port] = certified(tmp_path), free_ports(2)
    replaced = {
        "127.0.0.1:8080": served.removeprefix("http://"),
        "listen 443": f"listen 127.0.0.1:{port}",
        "listen 80": f"listen 127.0.0.1:{plain_port}",
        "/etc/ssl/change-freeze/fullchain.pem": str(tmp_path / CERTIFICATE),
        "/etc/ssl/change-freeze/privkey.pem": str(tmp_path / CERTIFICATE),
        "/var/log/nginx/change-freeze.log": str(tmp_path / "access.log"),
    }
    for name in ("upstream.conf", "change-freeze.conf"):
        text = (SHIPPED / name).read_text()
        for shipped, here in replaced.items():
            text = text.replace(shipped, here)
        (tmp_path / name).write_text(text)
    file = tmp_path / "nginx"
    file.write_text(CONFIGURATION.format(directory=tmp_path))
    process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(file)], stderr=subprocess.PIPE)
    try:
        # Of connecting only: nginx listens a moment after it starts.
        transport = httpx.HTTPTransport(verify=tls.client, retries=8)
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", transport=transport, timeout=PATIENCE) as client:
            client.get("/healthz")
            yield client
    finally:
        process.terminate()
        _, shown = process.communicate(timeout=PATIENCE)
    assert b"[emerg]" not in shown, shown.decode()


def test_repository_is_found_by_its_escaped_name_behind_nginx(
    proxy: httpx.Client, database: str, redis: object
) -> None:
    with committing(database) as session:
        organization = factories.organization(session)
        web = factories.repository(session, organization, "acme/web").id
        key = factories.api_key(session, organization).secret
    headers = {"Authorization": f"Bearer {key}"}
    found = proxy.get("/v1/repos/acme%2Fweb", headers=headers)
    assert found.status_code == 200, found.text
    assert found.json()["id"] == web
    assert proxy.get("/v1/repos/acme%2Fweb/branches", headers=headers).json() == {"data": [], "nextCursor": None}
    assert proxy.get("/v1/repos/acme/web", headers=headers).status_code == 404


def test_address_of_a_calendar_is_not_logged_by_nginx(proxy: httpx.Client, tmp_path: Path) -> None:
    assert proxy.get("/calendars/svc_feed_secret.ics").status_code == 404
    assert proxy.get("/sign-in").status_code == 200
    proxy.get("/healthz")  # nginx logs a request after its answer, and before the next one of the connection
    logged = (tmp_path / "access.log").read_text()
    assert "/sign-in" in logged
    assert "svc_feed_secret" not in logged

"""The service behind nginx, as it is often put."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import factories
from tests.harness.sessions import committing

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PATIENCE = 10.0

# proxy_pass without a path of its own: nginx then hands on the path as it was sent, %2F and all.
CONFIGURATION = """
daemon off;
pid {directory}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; }}
  }}
}}
"""


@pytest.fixture
def proxy(served: str, tmp_path: Path) -> Iterator[httpx.Client]:
    if NGINX is None:
        pytest.skip("nginx is not on this machine (Debian: apt-get install nginx)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    file = tmp_path / "nginx.conf"
    file.write_text(CONFIGURATION.format(directory=tmp_path, port=port, upstream=served))
    process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(file)], stderr=subprocess.PIPE)
    try:
        transport = httpx.HTTPTransport(retries=8)  # of connecting only: nginx listens a moment after it starts
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=PATIENCE) as client:
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

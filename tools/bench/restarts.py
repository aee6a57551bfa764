"""What restarts cost: a start, and replacing two API hosts under load.

Aims: from exec to `/readyz` 200 within 3 s; no failed request while nginx, with the options of `deploy/nginx`, has two
hosts behind it that are replaced one after the other.
"""

import itertools
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from tools.bench.servers import cpu_seconds, process, run, wait_for, web
from tools.bench.stack import LOGIN, Stack, running, scaled
from tools.embedded.ports import free_port, free_ports

STARTS = scaled(7)
REPLACEMENTS = scaled(4)
CONNECTIONS = 8
WRITE_EVERY = 10
"""One of so many requests starts and lifts a freeze."""
_NGINX = """
daemon off; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path body; proxy_temp_path proxy;
  fastcgi_temp_path other; uwsgi_temp_path other; scgi_temp_path other;
  upstream change_freeze {{ {servers} keepalive 32; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://change_freeze; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Connection ""; proxy_set_header Host $host;
    }}
  }}
}}
"""


def main() -> None:
    """Measure and print."""
    print("Restarts")
    with running(20, 2, latency_ms=20) as stack:
        starts = [start(stack.environment) for _ in range(STARTS)]
        seconds, cpu = (sorted(values) for values in zip(*starts, strict=True))
        print(
            f"  from exec to /readyz 200: median {statistics.median(seconds):.1f} s, worst {seconds[-1]:.1f} s "
            f"(aim 3), with {statistics.median(cpu):.1f} s of CPU"
        )
        replace_hosts(stack)


def start(environment: Mapping[str, str]) -> tuple[float, float]:
    """Start an API host; return the seconds until it is ready, and those of CPU, of all its processes."""
    port = free_port()
    began = time.monotonic()
    with process(["app", "api"], {**environment, "PORT": str(port)}) as started:
        wait_for(f"http://127.0.0.1:{port}/readyz", started)
        return time.monotonic() - began, cpu_seconds(started.pid)


def replace_hosts(stack: Stack) -> None:
    """Replace two hosts under load, one after the other, several times, and count what clients saw."""
    if shutil.which("nginx") is None:
        print("  replacing hosts: not measured, because nginx is not installed")
        return
    ports = free_ports(2)
    with ExitStack() as exit_stack:
        hosts = {port: exit_stack.enter_context(ExitStack()) for port in ports}
        for port, host in hosts.items():
            host.enter_context(web(stack.environment, port=port))
        address = exit_stack.enter_context(nginx(ports))
        over, seen = threading.Event(), Counter[str]()
        with ThreadPoolExecutor(CONNECTIONS) as clients:
            asking = [clients.submit(client, stack, address, number, over, seen) for number in range(CONNECTIONS)]
            try:
                for _ in range(REPLACEMENTS):
                    for port, host in hosts.items():
                        host.close()
                        host.enter_context(web(stack.environment, port=port))
            finally:
                over.set()
            for each in asking:
                each.result()
    failed = {answer: count for answer, count in seen.items() if not answer.startswith("2")}
    print(f"  two hosts replaced {REPLACEMENTS} times each: {seen.total()} requests, failed (aim 0): {failed or 0}")


@contextmanager
def nginx(ports: list[int]) -> Iterator[str]:
    """Run nginx before hosts of the API; yield its address."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        port = free_port()
        servers = " ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
        Path(home, "nginx.conf").write_text(_NGINX.format(servers=servers, port=port))
        with run(["nginx", "-p", home, "-c", f"{home}/nginx.conf"], {"PATH": "/usr/sbin"}) as child:
            wait_for(f"http://127.0.0.1:{port}/", child)
            yield f"http://127.0.0.1:{port}"


def client(stack: Stack, address: str, number: int, over: threading.Event, seen: Counter[str]) -> None:
    """Read, and now and then start and lift a freeze, until it is over; count the answers by status."""
    repository = f"{LOGIN}/service-{number + 2}"
    scope = {"type": "branch", "repository": repository, "branch": "main"}
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {stack.keys[LOGIN]}"

    def ask(method: str, path: str, body: object = None) -> requests.Response | None:
        try:
            answer = session.request(method, address + path, json=body, timeout=30)
        except requests.RequestException as error:
            seen[type(error).__name__] += 1
            return None
        seen[str(answer.status_code)] += 1
        return answer

    for count in itertools.count(1):
        if over.is_set():
            return
        if count % WRITE_EVERY:
            ask("GET", f"/v1/freeze-state?repo={repository}&branch=main")
        elif started := ask("POST", "/v1/freezes", {"scope": scope, "reason": "Replacing hosts"}):
            ask("POST", f"/v1/freezes/{started.json()['id']}/lift", {})

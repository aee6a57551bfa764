"""Pages of the dashboard for an organisation with 1,000 watched branches: server time, and what a browser waits for.

The organisation is that of `overview`. Two API processes, 2 connections. The CPU is that of the API processes, for each
page, as Brotli, which every browser accepts. Aims: p95 of each page at most 150 ms; the largest contentful paint of `/`
on slow 4G (1.6 Mbit/s, 150 ms) with a processor of a quarter's speed at most 1 s.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from sqlalchemy import select

from models.freezes import Freeze
from models.organizations import Organization
from rules.access.login_sessions import cookie_name
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.harness.browser import CHROMIUM, Browser, chromium
from tools.bench.load import Asked, run
from tools.bench.overview import BRANCHES, seed
from tools.bench.servers import Storage, WebServer, storage, web

CONNECTIONS, WARM_UP, SECONDS, TRIES = 2, 1.0, 3.0, 5
AIM_MS, AIM_PAINT_MS = 150, 1_000
PATHS = (
    "/", "/overview", "/freezes", "/freezes/new", "/exceptions", "/pulls", "/attention", "/calendar", "/timeline",
    "/schedules", "/repositories", "/branches", "/audit", "/settings",
)  # fmt: skip
SLOW_4G = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 93_750}
"""Latency in milliseconds, throughput in bytes a second."""
PAINT = """
new Promise(resolve => new PerformanceObserver(list => resolve(list.getEntries().at(-1).startTime))
  .observe({ type: "largest-contentful-paint", buffered: true }))
"""


def sign_in(stores: Storage) -> tuple[str, str]:
    """Return the session token of a member, and the id of a freeze."""
    token = new_session_token()
    with stores.rows() as session:
        acme = session.scalars(select(Organization)).one()
        factories.login(session, factories.member(session, acme, "admin"), acme, token_hash=token_hash(token))
        return token, session.scalars(select(Freeze.id).where(Freeze.ended_at.is_(None)).limit(1)).one()


@contextmanager
def browsing(server: WebServer, token: str) -> Iterator[Browser]:
    """Open a browser that has signed in, with scripts, on a processor of a quarter of the speed."""
    with chromium() as started, started.profile() as browser:
        browser.run_scripts(enabled=True)
        browser.call("Network.setCookie", name=cookie_name(server.address), value=token, url=server.address)
        browser.call("Emulation.setCPUThrottlingRate", rate=4)
        yield browser


def paint(server: WebServer, token: str) -> float:
    """Return the median of the largest contentful paint of `/`, in milliseconds."""
    times = []
    with browsing(server, token) as browser:
        browser.call("Network.emulateNetworkConditions", **SLOW_4G)
        for _ in range(TRIES + 1):
            browser.call("Network.clearBrowserCache")
            browser.open(server.address + "/")
            times.append(float(browser.value(PAINT)))
    return median(times[1:])  # the first page of a browser takes longer


def main() -> None:
    """Measure and print."""
    with storage() as stores, web(stores.environment) as server:
        seed(stores)
        token, freeze = sign_in(stores)
        headers = [f"Cookie: {cookie_name(server.address)}={token}", "Accept-Encoding: br"]
        print(f"{BRANCHES} watched branches, all frozen ({CONNECTIONS} connections, 2 workers; aim: p95 {AIM_MS} ms)")
        for path in (*PATHS, f"/freezes/{freeze}", f"/freezes/{freeze}/lift"):
            asked = Asked(server, path, headers)
            _, found = (run(asked, connections=CONNECTIONS, seconds=seconds) for seconds in (WARM_UP, SECONDS))
            print(f"  GET {path.replace(freeze, '…'):20} {found}")
        painted = f"{paint(server, token):.0f} ms (aim {AIM_PAINT_MS})" if CHROMIUM else "not measured: no Chromium"
        print(f"  largest contentful paint of /: {painted}")

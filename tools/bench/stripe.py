"""Freezes, lifts and reads while Stripe hangs, beside the same while it works.

All the while a person opens the portal now and then, which waits for Stripe, and jobs read a customer there. Stripe
works and hangs in turns. Aim: a ratio of 1.1 at most, of the medians on the clock.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Event, Thread

import requests

from integrations.stripe import Stripe, StripeSettings
from integrations.stripe.catalogue import set_up
from rules.billing.offers import read_offers
from tools.bench.servers import machine, process, wait_for
from tools.bench.stack import Stack, running, scaled, until, warm
from tools.bench.writes import Writes
from tools.embedded.ports import free_port
from tools.fake_stripe.keys import SECRET_KEY

ROUNDS = 5
TIMES = scaled(20)
"""Freezes, lifts and reads of a round."""
LATENCY_MS = 50
CALL_INTERVAL = 0.5
"""Seconds between two calls that open the portal, and between two that read the customer."""
MAX_CALL_SECONDS = 15.0
"""Seconds after which a request that waits for Stripe is answered in any case."""
VISA = "4242 4242 4242 4242"
REPOSITORY = "acme/service-1"
READS = {
    "freeze-state": f"/v1/freeze-state?repo={REPOSITORY}&branch=main",
    "freezes": "/v1/freezes",
    "entitlements": "/v1/entitlements",
    "billing": "/v1/billing",
    "overview": "/v1/overview",
}
Seconds = dict[str, list[float]]


def main() -> None:
    """Measure and print."""
    found: dict[str, Seconds] = {"works": {}, "hangs": {}}
    with ExitStack() as exit_stack:
        address = f"http://127.0.0.1:{free_port()}"
        server = exit_stack.enter_context(process(["tools.fake_stripe", "--port", address.rpartition(":")[2]], {}))
        wait_for(f"{address}/_control/settings", server)
        set_up_prices(address)
        environment = {
            "STRIPE_SECRET_KEY": SECRET_KEY,
            "STRIPE_WEBHOOK_SECRET": "whsec_of_the_benchmark",
            "STRIPE_API_URL": address,
        }
        stack = exit_stack.enter_context(running(4, latency_ms=LATENCY_MS, environment=environment))
        subscribe(stack)
        warm(stack, REPOSITORY)
        statuses: set[int] = set()
        for _ in range(ROUNDS):
            for state, seconds in found.items():
                with hanging(address) if state == "hangs" else nullcontext(), calling_stripe(stack, statuses):
                    time.sleep(2 * CALL_INTERVAL)
                    measure(stack, seconds)
    report(found, statuses)


def set_up_prices(address: str) -> None:
    """Make the prices and the portal's configuration."""
    offers = read_offers({"plans": {"team": {"month": {"EUR": 4900}}}})
    set_up(Stripe(StripeSettings(SECRET_KEY, api_url=address)), offers)


def subscribe(stack: Stack) -> None:
    """Have the organisation pay for its plan, instead of getting it from an operator."""
    stack.stores.sql("DELETE FROM plan_grants")
    order = {"plan": "team", "interval": "month"}
    until(lambda: stack.call("GET", "/v1/billing").status_code == 200)
    until(lambda: stack.stores.sql("SELECT count(*) FROM stripe_prices"))
    answer = stack.call("POST", "/v1/billing/checkout", order)
    answer.raise_for_status()
    requests.post(answer.json()["url"], {"card": VISA}, allow_redirects=False, timeout=10).raise_for_status()
    until(lambda: stack.call("GET", "/v1/billing").json()["source"] == "stripe")


@contextmanager
def hanging(address: str) -> Iterator[None]:
    """Let Stripe answer nothing during the block."""
    fault = {"kind": "timeout", "scope": "/v1/", "seconds": MAX_CALL_SECONDS}
    requests.post(f"{address}/_control/faults", json=fault, timeout=10).raise_for_status()
    yield
    requests.delete(f"{address}/_control/faults", timeout=10).raise_for_status()


@contextmanager
def calling_stripe(stack: Stack, statuses: set[int]) -> Iterator[None]:
    """Open the portal and read the customer at an even pace during the block; collect the statuses of the portal."""
    over = Event()
    visits: list[Thread] = []

    def visit() -> None:
        statuses.add(stack.call("POST", "/v1/billing/portal", {}).status_code)

    def call_repeatedly() -> None:
        while not over.wait(CALL_INTERVAL):
            stack.stores.sql("UPDATE stripe_customers SET due_at = clock_timestamp()")
            visits.append(Thread(target=visit, daemon=True))
            visits[-1].start()

    caller = Thread(target=call_repeatedly, daemon=True)
    caller.start()
    yield
    over.set()
    for thread in (caller, *visits):
        thread.join(2 * MAX_CALL_SECONDS)


def measure(stack: Stack, seconds: Seconds) -> None:
    """Freeze, lift and read, one after the other, and note how long each took."""
    writes = Writes(stack)
    writes.look()
    heads = stack.control("GET", f"/checks?repository={REPOSITORY}")["heads"]
    [head] = [each["headSha"] for each in heads]
    body = {
        "scope": {"type": "branch", "repository": REPOSITORY, "branch": "main"},
        "reason": "Measuring Stripe's influence",
    }
    for _ in range(TIMES):
        since = time.time()
        freeze = timed(seconds, "freeze", lambda: stack.call("POST", "/v1/freezes", body))
        seconds.setdefault("blocked at GitHub", []).append(writes.wait("failure", since, [head]))
        for name, path in READS.items():
            timed(seconds, name, lambda path=path: stack.call("GET", path))  # type: ignore[misc]
        since = time.time()
        timed(seconds, "lift", lambda: stack.call("POST", f"/v1/freezes/{freeze.json()['id']}/lift", {}))  # noqa: B023
        seconds.setdefault("freed at GitHub", []).append(writes.wait("success", since, [head]))


def timed(seconds: Seconds, name: str, ask: Callable[[], requests.Response]) -> requests.Response:
    """Send a request, and note how long it took. Raise HTTPError unless it succeeds."""
    began = time.perf_counter()
    answer = ask()
    seconds.setdefault(name, []).append(time.perf_counter() - began)
    answer.raise_for_status()
    return answer


def report(found: dict[str, Seconds], statuses: set[int]) -> None:
    """Print the table."""
    works, hangs = found["works"], found["hangs"]
    print(f"Stripe hangs, beside Stripe works ({machine()}; {ROUNDS * TIMES} times each, medians; aim 1.1 or less)")
    for name in works:
        working, hung = (statistics.median(each[name]) * 1000 for each in (works, hangs))
        print(f"  {name:18} {hung / working:5.2f}   {hung:6.1f} and {working:6.1f} ms")
    every = [statistics.median(each[name]) for each in (hangs, works) for name in works]
    half = len(every) // 2
    print(f"  {'sum':18} {sum(every[:half]) / sum(every[half:]):5.2f}   the portal answered with {sorted(statuses)}")

"""PostgreSQL that restarts, crashes, hangs or is busy: what was acknowledged stays, and a retry is safe."""

import threading
import time

import psycopg
import requests

from app.slots import MAX_WAIT_SECONDS
from tests.faults.suite.catalogue.steps import is_right
from tests.faults.suite.client import freeze_body, new_key
from tests.faults.suite.processes import wait_until
from tests.faults.suite.tcp_proxies import Place, Trap
from tests.faults.suite.trial import Trial, fault


def commits_a_freeze(transaction: str) -> bool:
    """True if a transaction that starts a freeze is about to be committed."""
    return "INSERT INTO freezes" in transaction and transaction.upper().endswith("COMMIT")


class PendingRequest(threading.Thread):
    """A request for a freeze of `acme`, sent in a thread of its own."""

    def __init__(self, trial: Trial, key: str) -> None:
        super().__init__(daemon=True)
        self.trial, self.key = trial, key
        self.answer: requests.Response | None = None
        self.start()

    def run(self) -> None:
        """Send it once."""
        body = freeze_body({"type": "organization"}, self.key)
        try:
            self.answer = self.trial.client.request("POST", "/v1/freezes", body, key=self.key, timeout=40)
        except requests.RequestException:
            self.answer = None

    def result(self) -> tuple[int, str]:
        """Wait for the answer, and return its status and code; status 0 if there is none."""
        self.join(45)
        if self.answer is None:
            return 0, "no answer"
        return self.answer.status_code, self.answer.json().get("error", {}).get("code", "")


def ask_and_catch(trial: Trial, place: Place, *, strikes: bool = False) -> tuple[PendingRequest, Trap]:
    """Request a freeze of `acme`, and catch it at its COMMIT."""
    key = new_key()

    def is_ours(transaction: str) -> bool:
        return commits_a_freeze(transaction) and f"Requested under {key}." in transaction

    trap = trial.stack.wire("api", "postgres").trap(is_ours, place, strikes=strikes)
    asked = PendingRequest(trial, key)
    trap.wait()
    return asked, trap


def retry(trial: Trial, key: str) -> requests.Response:
    """Send the request again under its key until it is answered for good, and note the freeze."""
    answer = trial.client.insist("POST", "/v1/freezes", freeze_body({"type": "organization"}, key), key=key)
    trial.require(answer.status_code == 201, f"the retry was answered with {answer.status_code}")
    trial.client.note(answer.json()["id"], key)
    return answer


def _require_unavailable(trial: Trial, asked: PendingRequest) -> None:
    status, code = asked.result()
    trial.require((status, code) == (503, "database_unavailable"), f"it was answered with {status} {code}")


@fault("PostgreSQL is restarted in mid-request: 503, and the retry is safe", load=False)
def restarted(trial: Trial) -> None:
    asked, trap = ask_and_catch(trial, "request")
    trial.stack.stop_postgres()
    trap.cut()
    _require_unavailable(trial, asked)
    trial.stack.start_postgres()
    trial.injected()
    retry(trial, asked.key)


@fault("PostgreSQL crashes under load (kill -9), and recovers")
def crashed(trial: Trial) -> None:
    stack = trial.stack
    trial.client.freeze()
    stack.stop_postgres(crash=True)
    asked = PendingRequest(trial, new_key())
    _require_unavailable(trial, asked)
    stack.start_postgres()
    trial.injected()
    retry(trial, asked.key)
    stack.skip(40)


@fault(
    "The COMMIT of a freeze never arrives: nothing is there, and the retry does it",
    load=False,
    place="request",
    replayed=None,
)
@fault(
    "The answer to the COMMIT of a freeze is lost: it is there, and the retry replays it",
    load=False,
    place="answer",
    replayed="true",
)
def commit_cut_off(trial: Trial, place: Place, replayed: str | None) -> None:
    asked, _trap = ask_and_catch(trial, place, strikes=True)
    trial.injected()
    _require_unavailable(trial, asked)
    again = retry(trial, asked.key).headers.get("Idempotency-Replayed")
    trial.require(again == replayed, f"the retry is a replay: {replayed}, and was: {again}")


@fault("Every connection of the API is busy: 503 with Retry-After of 2 s at most", load=False)
def pool_exhausted(trial: Trial) -> None:
    stack = trial.stack
    with psycopg.connect(stack.postgres.url("postgres")) as blocker:
        blocker.execute("LOCK TABLE freezes IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        asked = [PendingRequest(trial, new_key()) for _ in range(15 * stack.api_processes)]
        wait_until(lambda: any(one.answer is not None for one in asked), "a refusal", MAX_WAIT_SECONDS + 10)
        trial.require(time.monotonic() - began < MAX_WAIT_SECONDS + 3, "refused as soon as it has waited for its time")
        time.sleep(0.2)
        refused = [one.answer for one in asked if one.answer is not None]
        blocker.rollback()
    trial.injected()
    for answer in refused:
        trial.require(answer.status_code == 503, f"{answer.status_code} while all connections are busy")
        trial.require(int(answer.headers.get("Retry-After", "99")) <= 2, "Retry-After of 2 s at most")
    trial.require(stack.api.runs, "the API lives")
    for one in asked:
        one.join(45)
    trial.require(any(one.result()[0] == 201 for one in asked), "who had a connection got its freeze")
    for one in asked[:3]:
        retry(trial, one.key)


@fault("PostgreSQL hangs under load: 503 within seconds, and all goes on", load=False)
def hangs(trial: Trial) -> None:
    stack = trial.stack
    trial.client.freeze()
    wait_until(lambda: is_right(stack), "the freeze", 60)
    with stack.postgres.paused():
        asked = [PendingRequest(trial, new_key()) for _ in range(3)]
        began = time.monotonic()
        ready = requests.get(f"{stack.address}/readyz", timeout=20)
        trial.require(ready.status_code == 503, f"/readyz answered {ready.status_code}")
        trial.require(time.monotonic() - began <= 2, "/readyz answers within 2 s")
        for one in asked:
            _require_unavailable(trial, one)
        trial.require(time.monotonic() - began <= 5, "requests are answered within 5 s")
    trial.injected()
    wait_until(lambda: requests.get(f"{stack.address}/readyz", timeout=5).status_code == 200, "readiness", 2)
    for one in asked:
        retry(trial, one.key)


@fault("The API's connections break between two requests: the first ones may fail, and then all is well", load=False)
def connections_of_the_api_break(trial: Trial) -> None:
    stack = trial.stack
    trial.client.freeze()
    wait_until(lambda: is_right(stack), "the freeze", 60)
    stack.wire("api", "postgres").cut()
    trial.injected()
    answers = [trial.client.request("GET", "/v1/freezes").status_code for _ in range(20)]
    trial.require(set(answers) <= {200, 503}, f"answers were {sorted(set(answers))}")
    trial.require(answers[-5:] == [200] * 5, f"it goes on: {answers}")

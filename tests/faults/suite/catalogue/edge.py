"""The API: requests in progress when it stops or dies, and bodies without end."""

import socket
import threading
import time

from tests.faults.suite.catalogue.database import PendingRequest, ask_and_catch, retry
from tests.faults.suite.client import new_key
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tools.embedded.processes import processes

ENDLESS = 1 << 30


@fault("The API gets SIGTERM under load: it finishes its requests and exits with 0")
def stop_requested(trial: Trial) -> None:
    stack = trial.stack
    asked, trap = ask_and_catch(trial, "answer")
    stack.api.terminate()
    time.sleep(0.3)
    trap.release()
    trial.injected()
    status, _code = asked.result()
    trial.require(status == 201, f"a running request was answered with {status}")
    if asked.answer is not None and status == 201:
        trial.client.note(asked.answer.json()["id"], asked.key)
    code = stack.api.ended(30)
    trial.require(code == 0, f"it exited with {code}")
    stack.api.start()
    stack.wait_for_api()


@fault("The API is killed in mid-request: the retry does it once")
def killed(trial: Trial) -> None:
    stack = trial.stack
    asked, trap = ask_and_catch(trial, trial.random.choice(("request", "answer")))
    stack.api.kill()
    trap.release()
    status, _code = asked.result()
    trial.require(status == 0, f"the API was unavailable, and yet the status was {status}")
    trial.injected()
    stack.api.start()
    retry(trial, asked.key)


@fault("Only the parent of the API's processes is killed: they end, and the next one starts", load=False)
def parent_killed(trial: Trial) -> None:
    stack = trial.stack
    orphans = stack.api.children()
    stack.api.kill_parent_only()
    trial.injected()
    wait_until(lambda: not _alive(orphans), "the end of the orphans", 30)
    stack.api.start()
    stack.wait_for_api()
    trial.client.freeze()


def _alive(pids: list[int]) -> set[int]:
    return set(pids) & {process for process, stat in processes() if stat.state != "Z"}


@fault("A body without end is refused with 413 before it is read whole", within=20, load=False)
def endless_body(trial: Trial) -> None:
    declared = _send(trial, f"Content-Length: {ENDLESS}\r\n", chunked=False)
    chunked = _send(trial, "Transfer-Encoding: chunked\r\n", chunked=True)
    for what, (status, sent) in {"declared": declared, "chunked": chunked}.items():
        trial.require(status == 413, f"a {what} body was answered with {status}")
        trial.require(sent < 16 << 20, f"{sent >> 20} MiB of a {what} body were taken")
    trial.client.freeze()


def _send(trial: Trial, header: str, *, chunked: bool) -> tuple[int, int]:
    """Send a body until there is an answer; return its status, and how many bytes were sent."""
    stack = trial.stack
    with socket.create_connection(("127.0.0.1", stack.api_port), timeout=10) as connection:
        head = (
            f"POST /v1/freezes HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {stack.acme.key}\r\n{header}\r\n"
        )
        connection.sendall(head.encode())
        piece = b"x" * 65536
        data, sent, answer = (b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece), 0, b""
        connection.setblocking(False)
        give_up = time.monotonic() + 10
        while not answer and sent < 1 << 26 and time.monotonic() < give_up:
            try:
                answer = connection.recv(4096)
            except BlockingIOError:
                try:
                    sent += connection.send(data)
                except BlockingIOError:
                    time.sleep(0.002)
                except OSError:
                    break
            except OSError:
                break
        return (int(answer.split()[1]) if answer else 0), sent


@fault("Fifty requests under one key at once: one effect")
def fifty_at_once(trial: Trial) -> None:
    key = new_key()
    asked = [PendingRequest(trial, key) for _ in range(50)]
    statuses = [one.result() for one in asked]
    trial.injected()
    wrong = [each for each in statuses if each[0] not in {201, 409, 503}]
    trial.require(not wrong, f"answers were {wrong[:3]}")
    retry(trial, key)
    trial.require(threading.active_count() < 100, "every request ended")

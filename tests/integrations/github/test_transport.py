"""One exchange is bounded in time and size, stays on its host, and says whether a write may have happened."""

import gzip
import http.server
import multiprocessing
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from integrations.github import CheckWrite, GitHub, GitHubError, GitHubSettings
from integrations.github.transport import Bearer
from tests.harness.certificates import CERTIFICATE, certified
from tests.harness.concurrency import at_once
from tests.integrations.github.scripted_server import Reply, Script, hang_up, serving

REPOSITORY = "GET /repositories/9"
FOUND = Reply({"id": 9, "node_id": "R_9", "name": "web", "owner": {"login": "acme"}})
WRITE = CheckWrite("R_1", "Change freeze", "a" * 40, "failure", "Frozen", "Until Monday", "g1")
Handler = http.server.BaseHTTPRequestHandler
Action = Callable[[GitHub], object]


def read(github: GitHub) -> object:
    return github.client(7).repository(9)


def write(github: GitHub) -> object:
    return github.client(7).write_checks([WRITE])


def failing(github: GitHub, action: Action) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        action(github)
    assert caught.value.code == "github_unavailable"
    return caught.value


@pytest.fixture
def hasty(settings: GitHubSettings, script: Script) -> GitHub:
    """Return a client whose deadline is short once it has its token."""
    hasty = replace(settings)
    github = GitHub(hasty)
    script.then(REPOSITORY, FOUND)
    read(github)
    object.__setattr__(hasty, "deadline_seconds", 0.4)
    return github


def trickle(handler: Handler, start: bytes, drop: bytes) -> None:
    """Send `start`, then `drop` for ever, always quicker than any timeout of a single read: only a deadline ends it."""
    try:
        handler.wfile.write(start)
        while True:
            handler.wfile.write(drop)
            time.sleep(0.05)  # the point is a slow server
    except OSError:
        handler.close_connection = True


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
SLOW: dict[str, Callable[[Handler], None]] = {
    "never": lambda handler: trickle(handler, b"", b""),
    "status line": lambda handler: trickle(handler, b"HTTP/1.1 2", b"0"),
    "headers": lambda handler: trickle(handler, b"HTTP/1.1 200 OK\r\nX-Long: ", b"a"),
    "body": lambda handler: trickle(handler, HEAD, b" "),
    "chunks": lambda handler: trickle(handler, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("action", [read, write])
def test_slow_response_is_abandoned_at_the_deadline(hasty: GitHub, script: Script, slow: str, action: Action) -> None:
    script.always[REPOSITORY] = script.always["POST /graphql"] = Reply(by_hand=SLOW[slow])
    error = failing(hasty, action)
    assert "in time" in error.message
    assert error.maybe_applied == (action is write)


def test_calls_with_a_shared_deadline_each_have_their_own(hasty: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = Reply(by_hand=SLOW["never"])
    earlier, began = len(script.asked(REPOSITORY)), time.monotonic()
    with hasty.client(7).shared_deadline():
        for _ in range(3):
            failing(hasty, read)
    assert time.monotonic() - began > 0.75
    assert len(script.asked(REPOSITORY)) - earlier <= 2, "after the shared deadline nothing is sent"


def test_server_that_reads_nothing_is_abandoned_at_the_deadline(settings: GitHubSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        base = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        github = GitHub(replace(settings, api_url=base, graphql_url=base + "/graphql", deadline_seconds=0.4))
        failing(github, read)


def test_write_was_not_applied_when_the_connection_is_refused(settings: GitHubSettings, script: Script) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    github = GitHub(replace(settings, graphql_url=f"http://127.0.0.1:{port}/graphql"))
    assert not failing(github, write).maybe_applied


def test_dead_pooled_connection_is_replaced_for_a_read(github: GitHub, script: Script) -> None:
    script.then(REPOSITORY, Reply(by_hand=hang_up), FOUND)
    read(github)
    assert len(script.asked(REPOSITORY)) == 2


def test_write_is_not_resent_when_its_response_is_lost(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", Reply(by_hand=hang_up))
    assert failing(github, write).maybe_applied
    assert len(script.asked("POST /graphql")) == 1


def test_truncated_body_is_an_error(github: GitHub, script: Script) -> None:
    def cut(handler: Handler) -> None:
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"data"')
        hang_up(handler)

    script.then("POST /graphql", Reply(by_hand=cut))
    assert failing(github, write).maybe_applied


def test_oversized_body_is_not_read_whole(github: GitHub, script: Script) -> None:
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    script.then(REPOSITORY, Reply(bomb, headers={"Content-Encoding": "gzip"}))
    assert "too large" in failing(github, read).message


def test_corrupt_compression_is_an_error(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = Reply(b"not gzip", headers={"Content-Encoding": "gzip"})
    failing(github, read)


def test_deeply_nested_body_is_an_error(github: GitHub, script: Script) -> None:
    script.then(REPOSITORY, Reply(b"[" * 100_000))
    failing(github, read)


@pytest.mark.parametrize("target", ["http://elsewhere.test/x", "//elsewhere.test/x", "https://127.0.0.1/x", "ftp://x/"])
def test_redirect_to_another_host_is_not_followed(github: GitHub, script: Script, target: str) -> None:
    script.then(REPOSITORY, Reply({"message": "Moved"}, 302, {"Location": target}))
    assert "another host" in failing(github, read).message


def test_oversized_body_of_a_redirect_is_not_read_whole(github: GitHub, script: Script) -> None:
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    script.then(REPOSITORY, Reply(bomb, 302, {"Content-Encoding": "gzip", "Location": "/elsewhere"}))
    assert "too large" in failing(github, read).message


@pytest.mark.parametrize("target", ["http://127.0.0.1:port/", "http://[::1/", "http://[x]/"])
def test_redirect_without_an_address_is_an_error_of_github(github: GitHub, script: Script, target: str) -> None:
    script.then(REPOSITORY, Reply({"message": "Moved"}, 302, {"Location": target}))
    failing(github, read)


def test_circular_redirects_end(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = Reply({"message": "Moved"}, 301, {"Location": "/repositories/9"})
    failing(github, read)
    assert len(script.asked(REPOSITORY)) == 3


def test_redirect_does_not_turn_a_write_into_a_read(github: GitHub, script: Script) -> None:
    script.then("POST /repos/acme/web/rulesets", Reply({"message": "Moved"}, 301, {"Location": "/elsewhere"}))
    with pytest.raises(GitHubError):
        github.client(7).repository_rulesets("acme", "web").create({})
    assert script.asked("GET /elsewhere") == []


def test_connections_are_reused_without_cookies(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = Reply(FOUND.body, headers={"Set-Cookie": "tracking=1; Path=/"})
    for _ in range(5):
        read(github)
    assert script.connections == 1
    assert all("cookie" not in seen.headers for seen in script.seen)


def test_netrc_entry_does_not_replace_the_token(
    settings: GitHubSettings, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ann password canary\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    script.then(REPOSITORY, FOUND)
    read(GitHub(settings))
    assert script.asked(REPOSITORY)[0].headers["authorization"] == "Bearer ghs_secret"


def test_representation_of_a_token_hides_the_secret() -> None:
    assert "canary" not in repr(Bearer("canary"))


def test_forked_child_opens_its_own_connections(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = FOUND
    read(github)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=read, args=(github,))
    child.start()
    child.join(10)
    assert child.exitcode == 0
    assert script.connections == 2


def test_concurrent_threads_receive_their_own_responses(github: GitHub, script: Script) -> None:
    for number in range(1, 17):
        script.always[f"GET /repositories/{number}"] = Reply(FOUND.body | {"id": number})

    def read_one(number: int) -> int:
        return github.client(7).repository(number).github_id

    assert at_once(*[partial(read_one, number) for number in range(1, 17)]) == [*range(1, 17)]


def test_tls_is_verified_within_the_same_deadline(
    settings: GitHubSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    with serving(script, certified(tmp_path).server) as base:
        secure = replace(settings, api_url=base, graphql_url=base + "/graphql")
        failing(GitHub(secure), read)
        assert script.seen == []
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / CERTIFICATE))
        script.then(REPOSITORY, FOUND, Reply(by_hand=SLOW["body"]))
        github = GitHub(secure)
        read(github)
        object.__setattr__(secure, "deadline_seconds", 0.8)
        assert "in time" in failing(github, read).message
        script.then("POST /graphql", Reply(by_hand=hang_up))
        assert failing(github, write).maybe_applied

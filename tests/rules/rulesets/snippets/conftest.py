"""Snippets of a ruleset at a simulated GitHub, and a shell that runs them with real tools."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from rules.rulesets.rulesets import desired_ruleset, ruleset_name
from rules.rulesets.snippets import PlacedRuleset, Snippet, snippets_of
from tests.harness import gh_stand_in
from tests.harness.unix_relay import unix_relay
from tools.fake_github import FakeGitHub, Handle, serve

APP_ID = 4711
TOKEN = "the-administrators-own-token"
NASTY = [
    "$(touch x)",
    "`touch x`",
    "it's",
    'a"b',
    "${HOME}",
    "%{if true}%{endif}",
    "$${a}",
    "a;touch x",
    "a&&touch-x",
    "a|b>c",
    "!!",
    "#",
    "$'x'",
    "-rf",
    "--help",
    "RULESET",
    "é-ü-日本-😀",
    "\u202eniam",
    "100%",
    "@x",
    "a'$(touch${IFS}x)'b",
    "\\(env)",
]
"""Branch names that something would happen with, if anything read them as more than a name."""


def places(branch: str, api_url: str, repository_ids: list[int] | None = None) -> list[PlacedRuleset]:
    """Return the two places where a rule for a branch, or for a glob, can be."""
    check, name = f"change-freeze/{branch}", ruleset_name(branch)
    own, shared = (desired_ruleset(check, APP_ID, ids) for ids in (None, repository_ids or [1]))
    return [
        PlacedRuleset("repository", "acme", "web", own, name, api_url),
        PlacedRuleset("organization", "acme", "web", shared, name, api_url),
    ]


def made(branch: str, api_url: str, repository_ids: list[int] | None = None) -> dict[tuple[str, str, str], Snippet]:
    """Return a branch's snippets by tool, level and purpose."""
    all_of_them = snippets_of(places(branch, api_url, repository_ids))
    found: dict[tuple[str, str, str], Snippet] = {
        (snippet.tool, snippet.level, snippet.purpose): snippet for snippet in all_of_them
    }
    assert len(found) == len(all_of_them)
    return found


@pytest.fixture(scope="session")
def served_host() -> Iterator[Handle]:
    handle = serve(FakeGitHub(app_id=APP_ID, person_token=TOKEN))
    yield handle
    handle.stop()


@pytest.fixture
def host(served_host: Handle) -> FakeGitHub:
    served_host.github.reset()
    return served_host.github


@dataclass
class Shell:
    """A real bash in an empty directory, with the tools that a snippet may use."""

    address: str
    directory: Path
    programs: Path
    home: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __call__(self, content: str) -> subprocess.CompletedProcess[str]:
        """Run lines as they stand; nothing but GitHub may be changed by them."""
        environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "GITHUB_TOKEN": TOKEN,
            **self.settings,
        }
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", content],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert list(self.directory.iterdir()) == []
        return ended

    def succeeds(self, content: str) -> None:
        """Run lines that have to succeed."""
        ended = self(content)
        assert ended.returncode == 0, f"{ended.stderr}\n{ended.stdout}\n{content}"


@pytest.fixture
def shell(served_host: Handle, host: FakeGitHub, tmp_path: Path) -> Shell:
    for tool in ("bash", "curl", "jq"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    directories = [tmp_path / name for name in ("work", "programs", "home")]
    for directory in directories:
        directory.mkdir()
    work, programs, home = directories
    return Shell(served_host.base_url, work, programs, home)


@pytest.fixture(params=["stand-in", "installed"])
def gh(request: pytest.FixtureRequest, shell: Shell) -> Iterator[Shell]:
    """Give the shell a `gh` that reaches the simulated GitHub: once a stand-in, once the real one."""
    shell.settings["GH_TOKEN"] = TOKEN
    if request.param == "stand-in":
        program = shell.programs / "gh"
        run = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(gh_stand_in.__file__))}"
        program.write_text(f'#!/bin/sh\n{run} "$@"\n')
        program.chmod(0o755)
        shell.settings["GH_ADDRESS"] = shell.address
        yield shell
        return
    if shutil.which("gh") is None:
        pytest.skip("gh is not installed; its stand-in takes the same lines")
    with unix_relay(urlsplit(shell.address).port or 0) as path:
        (shell.home / "config.yml").write_text(f"http_unix_socket: {path}\n")
        shell.settings |= {"GH_CONFIG_DIR": str(shell.home), "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
        yield shell


@pytest.fixture
def merges(served_host: Handle) -> Callable[[int], bool]:
    """Try to merge a pull request of acme/web, as its maintainer would."""

    def merge(number: int) -> bool:
        url = f"{served_host.base_url}/repos/acme/web/pulls/{number}/merge"
        answer = httpx.put(url, json={}, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code in {200, 405}, answer.text
        return answer.status_code == 200

    return merge

"""octokit, a client of GitHub that knows nothing of this simulation, walks through it."""

import subprocess
from pathlib import Path

import pytest

from tests.harness.app_key import AppKey
from tests.tools.fake_github.conftest import APP_ID, PERSON_TOKEN
from tools.fake_github import FakeGitHub, Handle

pytestmark = [pytest.mark.check, pytest.mark.slow(10)]
PROGRAM = Path(__file__).with_name("octokit_walk.mjs")
TIMEOUT = 60.0


def test_octokit_freezes_and_merges_a_pull_request(github: FakeGitHub, handle: Handle, app_key: AppKey) -> None:
    organization = github.organization("acme")
    web = organization.repository("web").requires("change-freeze/main")
    organization.installed()
    program = ["node", str(PROGRAM), handle.base_url, PERSON_TOKEN, str(APP_ID)]
    done = subprocess.run(program, input=app_key.private, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert web.record.pulls[1].merged_at is not None
    assert "feature/a" not in web.record.branches

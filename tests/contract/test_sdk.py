"""The generated clients freeze and thaw a running service, whose simulated code host then refuses and takes merges."""

import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.contract import CONTRACT_PATH
from tools.fuzz.sandboxes import running_sandbox
from tools.sandbox.clients import Client, Refused
from tools.sdk import python_client, typescript_types

pytestmark = [pytest.mark.check, pytest.mark.slow]
NODE_MODULES = CONTRACT_PATH.parent / "node_modules"
PROGRAM = Path(__file__).with_name("freeze_and_thaw.ts")
PATIENCE = 60.0


@pytest.fixture(scope="module")
def sandbox() -> Iterator[dict[str, Any]]:
    with running_sandbox() as report:
        yield report


@pytest.fixture(scope="module")
def key(sandbox: dict[str, Any]) -> str:
    secret: str = sandbox["organizations"]["acme"]["keys"]["all"]
    return secret


class PullRequest:
    """An open pull request into acme/web's main branch, as a maintainer at the code host sees it."""

    def __init__(self, sandbox: dict[str, Any]) -> None:
        self.fake_github = Client(sandbox["githubUrl"], sandbox["githubToken"])
        opened = self.fake_github.call("GET", "/repos/acme/web/pulls?state=open&base=main")
        self.path = f"/repos/acme/web/pulls/{opened[0]['number']}/merge"

    def is_refused(self) -> bool:
        with pytest.raises(Refused) as refused:
            self.fake_github.call("PUT", self.path, {})
        return refused.value.status == 405 and "change-freeze/main" in refused.value.message

    def is_merged(self) -> bool:
        return bool(self.fake_github.call("PUT", self.path, {})["merged"])


@pytest.fixture
def pull_request(sandbox: dict[str, Any]) -> PullRequest:
    return PullRequest(sandbox)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Generate the Python client, and return what imports its modules."""
    folder = tmp_path_factory.mktemp("python-sdk")
    python_client(folder / "fresh_change_freeze_client")
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"fresh_change_freeze_client.{name}")
    sys.path.remove(str(folder))


def test_python_client_freezes_and_lifts(
    sandbox: dict[str, Any], key: str, sdk: Callable[[str], Any], pull_request: PullRequest
) -> None:
    models = sdk("models")
    with sdk("client").AuthenticatedClient(base_url=sandbox["baseUrl"], token=key) as client:
        web = sdk("api.repositories.get_repository").sync(repo_id="acme/web", client=client)
        assert web.full_name == "acme/web"
        scope = models.BranchScope(type_=models.BranchScopeType.BRANCH, repository="acme/web", branch="main")
        request = models.CreateFreezeRequest(scope=scope, reason="Frozen by a Python program")
        freeze = sdk("api.freezes.create_freeze").sync(client=client, body=request, idempotency_key="once")
        again = sdk("api.freezes.create_freeze").sync(client=client, body=request, idempotency_key="once")
        assert again.id == freeze.id

        eventually(lambda: sdk("api.freezes.get_freeze").sync(freeze.id, client=client).enforced_at)
        state = sdk("api.freezes.get_freeze_state").sync(client=client, repo="acme/web", branch="main")
        assert state.frozen
        assert pull_request.is_refused()

        lifted = sdk("api.freezes.lift_freeze").sync(freeze.id, client=client)
        assert lifted.state == "ended"
        eventually(lambda: sdk("api.freezes.get_freeze").sync(freeze.id, client=client).released_at)
        assert pull_request.is_merged()

        refusal = sdk("api.freezes.lift_freeze").sync(freeze.id, client=client)
        assert refusal.error.code == "not_frozen"


def test_typescript_client_freezes_and_lifts(
    sandbox: dict[str, Any], key: str, tmp_path: Path, pull_request: PullRequest
) -> None:
    program = [needed("node"), compiled(tmp_path), sandbox["baseUrl"], key]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        try:
            frozen = running.stdout.readline().split()
            assert frozen[:1] == ["frozen"], running.stderr.read()
            assert pull_request.is_refused()
            thawed, errors = running.communicate("lift\n", timeout=PATIENCE)
        finally:
            running.kill()
    assert thawed.split() == ["thawed", frozen[1]], errors
    assert pull_request.is_merged()


def compiled(folder: Path) -> str:
    """Compile the program against freshly generated types; a fault of types fails the test."""
    compiler = NODE_MODULES / ".bin" / "tsc"
    if not (compiler.exists() and (NODE_MODULES / "openapi-fetch").exists()):
        pytest.skip("the npm tools are not installed (npm ci; `make lint` and `make sdk` do it)")
    typescript_types(folder / "schema.d.ts")
    shutil.copy(PROGRAM, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(NODE_MODULES)
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck"]
    subprocess.run([needed("node"), str(compiler), *options, PROGRAM.name], cwd=folder, check=True)
    return str(folder / "freeze_and_thaw.js")


def needed(program: str) -> str:
    """Return where a program is; without it there is nothing to be tested."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not on this machine")
    return found


def eventually(condition: Callable[[], object]) -> None:
    """Ask again until the answer is yes."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.05)

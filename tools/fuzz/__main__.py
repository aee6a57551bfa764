"""Try the contract with each kind of credential, and say what was found."""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.contract import load_contract
from tools.fuzz.credentials import SIGN_IN, Credential, credentials_of
from tools.fuzz.fixtures.call_fixtures import open_call_fixtures
from tools.fuzz.fixtures.organization import OrganizationFixture
from tools.fuzz.sandboxes import running_sandbox
from tools.sandbox.clients import Client
from tools.sandbox.settings import ROOT

PHASES = "examples,coverage,fuzzing,stateful"
QUICK_PHASES = "examples,fuzzing"
ALL_SCOPES = "all"
THOROUGH = (ALL_SCOPES, SIGN_IN)
"""The kinds that a quick run tries with all phases."""
OF_SIGN_IN = "^/(api/auth|[.]well-known)/"
"""What a session token is for; the rest is tried with the JWT that is minted from it. No links lead through these."""


@dataclass(frozen=True, slots=True)
class ThrottledAttempt:
    """What one credential is used for."""

    credential: Credential
    phases: str
    examples: int
    seed: int
    paths: Sequence[str] = ()
    """Options that choose paths."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Try the contract with Schemathesis.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="have an earlier run again")
    parser.add_argument("--examples", type=int, default=40, help="cases of each operation and phase (default 40)")
    parser.add_argument("--credential", action="append", help="only this kind; may be repeated")
    parser.add_argument("--phases", default=PHASES, help=f"default {PHASES}")
    parser.add_argument(
        "--quick", action="store_true", help=f"only {QUICK_PHASES}, but for the key of all scopes and a session token"
    )
    parser.add_argument("--sandbox", type=Path, help="the sandbox.json of one that runs; its data will be changed")
    return parser.parse_args(arguments)


def attempts(organization: dict[str, Any], given: argparse.Namespace) -> list[ThrottledAttempt]:
    """Return what is to be done, in order."""
    return [
        ThrottledAttempt(one, QUICK_PHASES, 3, given.seed)
        if given.quick and one.kind not in THOROUGH
        else ThrottledAttempt(one, _phases(one, given.phases), given.examples, given.seed, _paths(one, given))
        for one in credentials_of(organization)
        if not given.credential or one.kind in given.credential
    ]


def _phases(credential: Credential, wanted: str) -> str:
    """Return the phases that there are for a credential: the stateful one fails where no link is to be followed."""
    return ",".join(one for one in wanted.split(",") if credential.kind != SIGN_IN or one != "stateful")


def _paths(credential: Credential, given: argparse.Namespace) -> Sequence[str]:
    """Return the options that choose what a credential is tried with at length.

    A quick run leaves what belongs to session tokens to them: nothing there takes a key.
    """
    if credential.kind == SIGN_IN:
        return ("--include-path-regex", OF_SIGN_IN)
    return ("--exclude-path-regex", OF_SIGN_IN) if given.quick else ()


class Fuzzing:
    """Schemathesis over one sandbox, attempt by attempt."""

    def __init__(self, report: dict[str, Any], directory: Path) -> None:
        self.organization = report["organizations"]["acme"]
        self.base_url = report["baseUrl"]
        self.webhook_secret = report["webhookSecret"]
        self.stripe_webhook_secret = report["stripeWebhookSecret"]
        self.database_url = report["databaseUrl"]
        self.directory = directory
        self.fixtures = open_call_fixtures(self.database_url, self.organization["id"], self.base_url)
        self.organization_fixture = OrganizationFixture(
            Client(self.base_url, self.organization["keys"]["all"]), self.organization["repositories"]
        )

    def passes(self, attempt: ThrottledAttempt) -> bool:
        """Run Schemathesis with one credential; True if it found nothing."""
        document, tally = self.directory / "openapi.json", self.directory / "tally"
        freeze = self.organization_fixture.set_up(document, self.organization["id"])
        self.fixtures.person_of_the_examples()
        tally.touch()
        credential = attempt.credential
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", str(document), "--url", self.base_url]
        command += ["--seed", str(attempt.seed), "--max-examples", str(attempt.examples), "--phases", attempt.phases]
        command += attempt.paths
        if credential.token:
            command += ["--header", f"Authorization: Bearer {credential.token}"]
        variables = {
            "FUZZ_CREDENTIAL": credential.to_json(),
            "FUZZ_WEBHOOK_SECRET": self.webhook_secret,
            "FUZZ_STRIPE_WEBHOOK_SECRET": self.stripe_webhook_secret,
            "FUZZ_TALLY": str(tally),
            "FUZZ_SANDBOX": json.dumps(
                {"freeze": freeze, "baseUrl": self.base_url, "databaseUrl": self.database_url, **self.organization}
            ),
            "PYTHONPATH": str(ROOT),
        }
        print(f"\n== Credential: {credential.kind} (seed {attempt.seed})", flush=True)
        return subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False).returncode == 0

    def never_succeeded(self) -> list[str]:
        """Return the operations without a successful call: their responses were not checked."""
        lines = (self.directory / "tally").read_text().splitlines()
        succeeded = {operation for operation, status in map(str.split, lines) if status[0] == "2"}
        return sorted(load_contract().operations.keys() - succeeded)


def run(report: dict[str, Any], given: argparse.Namespace) -> int:
    """Return 1 when anything was found."""
    with tempfile.TemporaryDirectory() as directory:
        fuzzing = Fuzzing(report, Path(directory))
        planned = attempts(fuzzing.organization, given)
        failed = [attempt.credential.kind for attempt in planned if not fuzzing.passes(attempt)]
        print(f"\nNever called with success: {', '.join(fuzzing.never_succeeded()) or 'none'}")
    print(f"Found something as: {', '.join(failed) or 'no credential'} (seed {given.seed})")
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    """Run in the sandbox that is named, or in one of its own."""
    given = options(arguments)
    print(f"Seed {given.seed}: --seed {given.seed} has this run again", flush=True)
    if given.sandbox:
        return run(json.loads(given.sandbox.read_text()), given)
    with running_sandbox() as report:
        return run(report, given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

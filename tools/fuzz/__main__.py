"""Run Schemathesis over the contract with each kind of credential, and print what failed."""

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.contract import Operation, load_contract
from tools.fuzz.credentials import SIGN_IN, Credential, credentials_of, is_guarded
from tools.fuzz.fixtures.call_fixtures import open_call_fixtures
from tools.fuzz.fixtures.organization import OrganizationFixture
from tools.sandbox.clients import Client
from tools.sandbox.settings import ROOT
from tools.sandbox.temporary import temporary_sandbox

PHASES = "examples,coverage,fuzzing,stateful"
QUICK_PHASES = "examples,fuzzing"
ALL_SCOPES = "all"
THOROUGH = (ALL_SCOPES, SIGN_IN)
"""The kinds that a quick run tries with all phases."""
OF_SIGN_IN = "^/(api/auth|[.]well-known)/"
"""The paths that take a session token; the others take the JWT that is issued for it. No links join these."""


@dataclass(frozen=True, slots=True)
class CredentialRun:
    """One run of Schemathesis: with which credential, how long, and over which operations."""

    credential: Credential
    phases: str
    """Names of phases of Schemathesis, separated by commas."""
    examples: int
    """Cases of each operation and phase."""
    seed: int
    filters: Sequence[str] = ()
    """Options of Schemathesis that choose operations."""
    thinned: bool = False
    """Whether few cases of the coverage phase are sent, instead of all."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Try the contract with Schemathesis.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="repeat an earlier run")
    parser.add_argument("--examples", type=int, default=40, help="cases of each operation and phase (default 40)")
    parser.add_argument("--credential", action="append", help="only this kind; may be repeated")
    parser.add_argument("--phases", default=PHASES, help=f"default {PHASES}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"only what a credential may call, and only {QUICK_PHASES}, but for the key of all scopes and a session "
        "token, whose other phases are thinned",
    )
    parser.add_argument("--sandbox", type=Path, help="the sandbox.json of one that runs; its data will be changed")
    return parser.parse_args(arguments)


def plan_runs(organization: dict[str, Any], given: argparse.Namespace) -> list[CredentialRun]:
    """Return a run for each credential that the command line chooses, in order."""
    credentials = credentials_of(organization)
    [key] = [one for one in credentials if one.kind == ALL_SCOPES]
    return [
        CredentialRun(one, QUICK_PHASES, min(3, given.examples), given.seed, _filters(one, key, given))
        if given.quick and one.kind not in THOROUGH
        else CredentialRun(
            one, _phases(one, given.phases), given.examples, given.seed, _filters(one, key, given), thinned=given.quick
        )
        for one in credentials
        if not given.credential or one.kind in given.credential
    ]


def _phases(credential: Credential, wanted: str) -> str:
    """Return the wanted phases that a credential can have: without links to follow the stateful one fails."""
    return ",".join(one for one in wanted.split(",") if credential.kind != SIGN_IN or one != "stateful")


def _filters(credential: Credential, key: Credential, given: argparse.Namespace) -> Sequence[str]:
    """Return the options that choose the operations of a credential."""
    if not given.quick:
        return ("--include-path-regex", OF_SIGN_IN) if credential.kind == SIGN_IN else ()
    chosen = [one.id for one in load_contract().operations.values() if is_tried_quickly(one, credential, key)]
    return [option for operation in chosen for option in ("--include-operation-id", operation)]


def is_tried_quickly(operation: Operation, credential: Credential, key: Credential) -> bool:
    """True if a quick run tries an operation with a credential; `key` is that of all scopes.

    Whom an operation refuses it refuses before it looks at the request, but for the compatibility API. Of what a key
    may call, people call only writes without a body: they send the examples of bodies in
    `tests/contract/test_request_examples.py`, and reads answer all kinds of credential alike.
    """
    by_sign_in = bool(re.match(OF_SIGN_IN, operation.path))
    if by_sign_in or credential.kind == SIGN_IN:
        return by_sign_in and credential.kind == SIGN_IN
    if not credential.is_valid:
        return operation.classic or not is_guarded(operation)
    by_key = key.may_call(operation) and (operation.effect == "read" or bool(operation.body))
    return credential.may_call(operation) and (credential.role is None or not by_key)


class Fuzzing:
    """Schemathesis over one sandbox, run by run."""

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

    def passes(self, run: CredentialRun) -> bool:
        """Run Schemathesis with one credential; return True if it found nothing."""
        document, tally = self.directory / "openapi.json", self.directory / "tally"
        freeze = self.organization_fixture.set_up(document, self.organization["id"])
        self.fixtures.ensure_example_person()
        tally.touch()
        credential = run.credential
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", str(document), "--url", self.base_url]
        command += ["--seed", str(run.seed), "--max-examples", str(run.examples), "--phases", run.phases]
        command += run.filters
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
        if run.thinned:
            variables["FUZZ_THINNED"] = str(run.seed)
        print(f"\n== Credential: {credential.kind} (seed {run.seed})", flush=True)
        return subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False).returncode == 0

    def never_succeeded(self) -> list[str]:
        """Return the operations without a successful call: their responses were not checked."""
        lines = (self.directory / "tally").read_text().splitlines()
        succeeded = {operation for operation, status in map(str.split, lines) if status[0] == "2"}
        return sorted(load_contract().operations.keys() - succeeded)


def fuzz(report: dict[str, Any], given: argparse.Namespace) -> int:
    """Run Schemathesis over the sandbox of a report (`sandbox.json`); return 1 if it found anything, else 0."""
    with tempfile.TemporaryDirectory() as directory:
        fuzzing = Fuzzing(report, Path(directory))
        runs = plan_runs(fuzzing.organization, given)
        failed = [run.credential.kind for run in runs if not fuzzing.passes(run)]
        print(f"\nNever called with success: {', '.join(fuzzing.never_succeeded()) or 'none'}")
    found = f"something as {', '.join(failed)}" if failed else "nothing"
    print(f"Found {found} (seed {given.seed})")
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    """Fuzz the sandbox that the command line names, or one of its own."""
    given = options(arguments)
    print(f"Seed {given.seed}: --seed {given.seed} repeats this run", flush=True)
    if given.sandbox:
        return fuzz(json.loads(given.sandbox.read_text()), given)
    with temporary_sandbox() as report:
        return fuzz(report, given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

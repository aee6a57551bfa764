"""The version of a release in the files that name it, and its section in the changelog."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES: Mapping[str, str] = {
    "rules/version.py": r'^VERSION = "(.+)"$',
    "contract/shared.yaml": r"^  version: (.+)$",
    "deploy/kubernetes/change-freeze.yaml": r"^ +image: change-freeze:(.+)$",
    "deploy/kubernetes/migrate.yaml": r"^ +image: change-freeze:(.+)$",
    "deploy/helm/change-freeze/Chart.yaml": r'^(?:version|appVersion): "?([\d.]+)"?$',
    "docs/operations/systemd.md": r"^release=(.+)$",
}
"""File → the lines that name the version, as the one group of a pattern. `make contract` takes it to openapi.yaml."""
CHANGELOG = "CHANGELOG.md"
_UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


class ReleaseError(Exception):
    """A release that cannot be made; the message says why."""


def versions(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the versions that each file names."""
    texts = {name: (root / name).read_text() for name in PLACES}
    return {name: set(re.findall(PLACES[name], text, re.MULTILINE)) for name, text in texts.items()}


def current_version(root: Path = ROOT) -> str:
    """Return the version of the code. Raise ReleaseError if the files do not agree on it."""
    named = versions(root)
    found = set[str]().union(*named.values())
    if len(found) != 1 or not all(named.values()):
        raise ReleaseError(f"The files do not agree on the version: {named}")
    return found.pop()


def prepare(version: str, date: str, root: Path = ROOT) -> list[str]:
    """Write a new version into every file that names it, and give the changelog its section; return the files.

    Raise ReleaseError, before anything is written, if it is no newer version or nothing is said of it.
    """
    current = current_version(root)
    if _numbers(version) <= _numbers(current):
        raise ReleaseError(f"{version} is not newer than {current}.")
    changelog = (root / CHANGELOG).read_text()
    before, heading, after = changelog.partition(_UNRELEASED)
    if not heading or not re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0].strip():
        raise ReleaseError(f"{CHANGELOG} says nothing under Unreleased.")
    (root / CHANGELOG).write_text(f"{before}{heading}\n## {version} – {date}\n{after}")  # noqa: RUF001 - as in its other headings
    for name, pattern in PLACES.items():
        text = (root / name).read_text()
        (root / name).write_text(re.sub(pattern, lambda line: _with(line, version), text, flags=re.MULTILINE))
    return [CHANGELOG, *PLACES]


def _with(line: re.Match[str], version: str) -> str:
    start, end = line.start(1) - line.start(), line.end(1) - line.start()
    return line[0][:start] + version + line[0][end:]


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ReleaseError(f"{version} is not a version such as 1.2.3.")
    return tuple(map(int, match.groups()))


def require_tag_of_version(root: Path = ROOT) -> str | None:
    """Return the tag of a release that HEAD has, or None without one.

    Raise ReleaseError if it is that of another version, or if the changelog has no section of it.
    """
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*"]
    tags = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    version = current_version(root)
    if not tags:
        return None
    if tags != [f"v{version}"]:
        raise ReleaseError(f"The commit has the tag {', '.join(tags)}, and the code the version {version}.")
    if f"\n## {version} " not in (root / CHANGELOG).read_text():
        raise ReleaseError(f"{CHANGELOG} has no section of {version}.")
    return tags[0]

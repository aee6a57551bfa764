"""Making a release: its version in every file, its section of the changelog, its tag, and its image."""

import os
import subprocess
from pathlib import Path

import pytest

from rules.version import VERSION
from tools.release import __main__ as command
from tools.release.version import CHANGELOG, PLACES, ReleaseError, current_version, prepare, require_tag_of_version

ROOT = Path(__file__).parents[2]
NEWER = "99.2.0"
TODAY = "2027-01-04"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a repository of one commit with the files that name the version, of which something is unreleased."""
    for name in (CHANGELOG, *PLACES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    first, _, rest = (tmp_path / CHANGELOG).read_text().partition("## Unreleased\n")
    (tmp_path / CHANGELOG).write_text(f"{first}## Unreleased\n\n- Something new.\n{rest}")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "a release")
    return tmp_path


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Grace", "-c", "user.email=grace@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True)


def test_every_file_names_the_version_of_the_code() -> None:
    assert current_version() == VERSION


def test_changelog_has_a_section_of_the_version() -> None:
    assert f"\n## {VERSION} – 20" in (ROOT / CHANGELOG).read_text()  # noqa: RUF001 - the heading has a dash


def test_prepared_release_has_its_version_everywhere_and_a_section(copied: Path) -> None:
    assert set(prepare(NEWER, TODAY, copied)) == {CHANGELOG, *PLACES}
    assert current_version(copied) == NEWER
    text = (copied / CHANGELOG).read_text()
    assert f"## Unreleased\n\n## {NEWER} – {TODAY}\n\n- Something new.\n" in text  # noqa: RUF001 - the heading has a dash
    for name in PLACES:
        assert VERSION not in {line for line in (copied / name).read_text().splitlines() if "change-freeze:" in line}


@pytest.mark.parametrize(
    ("version", "problem"),
    [(VERSION, "is not newer"), ("0.9.9", "is not newer"), ("1.2", "is not a version"), ("v9.0.0", "is not a version")],
)
def test_release_needs_a_newer_version(copied: Path, version: str, problem: str) -> None:
    with pytest.raises(ReleaseError, match=problem):
        prepare(version, TODAY, copied)
    assert current_version(copied) == VERSION


def test_release_of_which_nothing_is_said_is_refused(copied: Path) -> None:
    prepare(NEWER, TODAY, copied)
    with pytest.raises(ReleaseError, match="says nothing under Unreleased"):
        prepare("99.3.0", TODAY, copied)
    assert current_version(copied) == NEWER


def test_tag_has_to_be_that_of_the_version(copied: Path) -> None:
    assert require_tag_of_version(copied) is None
    git(copied, "tag", f"v{VERSION}")
    assert require_tag_of_version(copied) == f"v{VERSION}"
    prepare(NEWER, TODAY, copied)
    with pytest.raises(ReleaseError, match=f"has the tag v{VERSION}, and the code the version {NEWER}"):
        require_tag_of_version(copied)


def test_tag_of_a_version_without_a_section_is_refused(copied: Path) -> None:
    git(copied, "tag", f"v{VERSION}")
    (copied / CHANGELOG).write_text("# Changelog\n")
    with pytest.raises(ReleaseError, match="has no section"):
        require_tag_of_version(copied)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace docker by a program that records how it is called, and says the version when it runs an image."""
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\necho "$@" >> "$0.calls"\n[ "$1" != run ] || echo {VERSION}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


def calls(builder: Path) -> list[str]:
    return builder.with_name("docker.calls").read_text().splitlines()


def test_image_is_built_and_run_where_a_builder_is(builder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["image"]) == 0
    name = f"change-freeze:{VERSION}"
    assert calls(builder) == ["info", f"build --file Containerfile --tag {name} .", f"run --rm {name} --version"]
    assert capsys.readouterr().out == f"built {name}\n"


def test_image_that_does_not_say_its_version_fails(builder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder.write_text('#!/bin/sh\n[ "$1" != run ] || echo 0.0.0\n')
    assert command.main(["image"]) == 1
    assert capsys.readouterr().err.startswith("The image does not run: 0.0.0")


def test_image_is_left_out_without_a_builder_if_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["image", "--if-possible"]) == 0
    assert "it is not built" in capsys.readouterr().out
    assert command.main(["image"]) == 1
    assert "can build an image here" in capsys.readouterr().err

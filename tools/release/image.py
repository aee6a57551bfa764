"""The image of a release, built where a builder runs."""

import shutil
import subprocess

from tools.release.version import ROOT, ReleaseError, current_version

BUILDERS = ("docker", "podman")


def find_builder() -> str | None:
    """Return a program that builds images and can do so here, or None."""
    for name in BUILDERS:
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


def build(builder: str) -> str:
    """Build the image and have it say its version; return its name. Raise ReleaseError if that fails."""
    version = current_version()
    image = f"change-freeze:{version}"
    built = subprocess.run([builder, "build", "--file", "Containerfile", "--tag", image, "."], cwd=ROOT, check=False)
    if built.returncode:
        raise ReleaseError(f"{builder} could not build the image.")
    run = subprocess.run([builder, "run", "--rm", image, "--version"], capture_output=True, text=True, check=False)
    if run.stdout.strip() != version:
        raise ReleaseError(f"The image does not run: {run.stdout}{run.stderr}")
    return image

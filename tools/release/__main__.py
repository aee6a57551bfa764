"""`python -m tools.release prepare|check|image`."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from tools.release.image import build, find_builder
from tools.release.version import ReleaseError, prepare, require_tag_of_version


def main(arguments: Sequence[str] | None = None) -> int:
    """Do a step; return 1 with a message if that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="The steps of a release.")
    steps = parser.add_subparsers(dest="step", required=True)
    wanted = steps.add_parser("prepare", help="write a version into the files that name it, and into the changelog")
    wanted.add_argument("version", help="such as 1.2.0")
    steps.add_parser("check", help="compare the tag of the commit, if it has one, with the version and the changelog")
    image = steps.add_parser("image", help="build the image of the version, with docker or podman")
    image.add_argument("--if-possible", action="store_true", help="only where a builder runs")
    options = parser.parse_args(arguments)
    try:
        if options.step == "prepare":
            for name in prepare(options.version, f"{datetime.now(UTC):%Y-%m-%d}"):
                print(f"wrote {name}")
        elif options.step == "check":
            print(f"The tag of the commit: {require_tag_of_version() or 'none'}")
        else:
            _build(required=not options.if_possible)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _build(*, required: bool) -> None:
    builder = find_builder()
    if builder is not None:
        print(f"built {build(builder)}")
    elif required:
        raise ReleaseError("Neither docker nor podman can build an image here.")
    else:
        print("Neither docker nor podman can build an image here: it is not built.")


if __name__ == "__main__":
    sys.exit(main())

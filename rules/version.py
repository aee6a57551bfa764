"""The version of this release: of the package, the contract, and every process (https://semver.org)."""

VERSION = "1.2.0"

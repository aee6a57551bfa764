"""A repository whose branch is enforced by one ruleset."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.installations import register_app


@pytest.fixture
def web(harness: Harness, build: Builder) -> RepositoryBuilder:
    """Build a repository whose one branch is watched and required; another App is known there too.

    Its administrator has authorised the service to write its rulesets.
    """
    build("web")
    harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at")
    register_app(harness.fake_github.world, 99, "another", None)
    return harness.fake_github.organization("acme").repository("web")

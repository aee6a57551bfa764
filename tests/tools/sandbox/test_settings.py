"""Ports and organisations of the sandbox."""

import socket
from collections import Counter

import pytest

from tools.sandbox.settings import SandboxError, check_ports, load_settings
from tools.sandbox.tenants import TENANTS


class TestSettings:
    def test_port_in_use_is_reported_with_its_variable(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            settings = load_settings({"PORT": str(port), "FAKE_GITHUB_PORT": "0"})
            with pytest.raises(
                SandboxError, match=f"Port {port} cannot be used: Address already in use. Set another, PORT="
            ):
                check_ports(settings)

    @pytest.mark.parametrize("text", ["http", "-1", "65536", "1_0", "٨"])
    def test_invalid_port_is_rejected(self, text: str) -> None:
        with pytest.raises(SandboxError, match="PORT must be a whole number"):
            load_settings({"PORT": text})


class TestTenants:
    def test_acme_has_enough_repositories_and_pull_requests(self) -> None:
        acme, globex = TENANTS
        assert len(acme.repositories) >= 12
        assert sum(len(repository.pulls) for repository in acme.repositories) >= 40
        assert len(globex.repositories) < len(acme.repositories)

    def test_two_pull_requests_share_a_head_with_different_bases(self) -> None:
        pulls = [(repository.name, pull) for repository in TENANTS[0].repositories for pull in repository.pulls]
        heads = Counter((name, pull.head) for name, pull in pulls)
        shared = [name_and_head for name_and_head, count in heads.items() if count > 1]
        assert len(shared) == 1
        assert len({pull.base for name, pull in pulls if (name, pull.head) == shared[0]}) == 2

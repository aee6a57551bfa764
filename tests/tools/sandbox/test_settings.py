"""Ports and organisations of the sandbox."""

import socket
from collections import Counter
from pathlib import Path

import pytest

from tools.sandbox.__main__ import lock_directory
from tools.sandbox.settings import SandboxError, load_settings, reserve_ports
from tools.sandbox.tenants import TENANTS

PORTS = ("PORT", "FAKE_GITHUB_PORT", "FAKE_STRIPE_PORT", "FAKE_SLACK_PORT", "MAILBOX_PORT")


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
                reserve_ports(settings)

    def test_port_of_another_sandbox_is_rejected_before_its_api_listens(self) -> None:
        settings = load_settings(dict.fromkeys(PORTS, "0"))
        reservations = reserve_ports(settings)
        again = load_settings(dict.fromkeys(PORTS, "0") | {"PORT": str(settings.port)})
        with pytest.raises(SandboxError, match=rf"Port {settings.port} cannot be used: .*Set another, PORT="):
            reserve_ports(again)
        for reservation in reservations:
            reservation.close()
        for reservation in reserve_ports(again):
            reservation.close()

    def test_directory_that_cannot_be_made_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        settings = load_settings(dict.fromkeys(PORTS, "0") | {"SANDBOX_DIR": str(tmp_path / "file")})
        with pytest.raises(SandboxError, match=r"SANDBOX_DIR=.*/file cannot be made: File exists"):
            lock_directory(settings)

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

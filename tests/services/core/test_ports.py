"""What a process is configured with is found by its type."""

from dataclasses import dataclass

import pytest

from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret, SecretKey


@dataclass(frozen=True)
class Client:
    address: str


class SpecialClient(Client):
    pass


@dataclass(frozen=True)
class Settings:
    size: int = 7


def test_port_is_found_by_its_type_or_a_type_above_it() -> None:
    given = SpecialClient("there")
    assert Ports(Settings(), given).find(Client) is given


def test_client_that_is_not_configured_is_none() -> None:
    assert Ports(None, Settings()).find(Client) is None


def test_settings_that_are_not_given_have_their_defaults_and_stay_the_same_object() -> None:
    ports = Ports()
    assert ports[Settings] == Settings(7)
    assert ports[Settings] is ports[Settings]


def test_client_that_has_no_defaults_and_is_required_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="Client is not configured"):
        Ports()[Client]


def test_others_take_the_place_of_those_of_the_same_type() -> None:
    ports = Ports(Client("here"), Settings(1))
    assert ports.having(Settings(2))[Settings] == Settings(2)
    assert ports.having(Settings(2)).find(Client) == Client("here")
    assert ports.without(Client).find(Client) is None
    assert ports[Settings] == Settings(1)


def test_two_secrets_are_two_ports() -> None:
    ports = Ports(SecretKey(b"a", b"older"), CursorSecret(b"b"))
    assert ports[SecretKey].accepted == (b"a", b"older")
    assert ports[CursorSecret].accepted == (b"b",)
    assert "older" not in repr(ports[SecretKey])

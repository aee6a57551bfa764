"""Which passwords are refused."""

import pytest

from rules.access.passwords import find_weakness, is_common, normalize

EMAIL = "eve.adams@example.com"


@pytest.mark.parametrize(
    "password",
    [
        "seven green bicycles",
        "x" * 9 + "y",
        "пять зелёных велосипедов",
        "🚲🚲🚲🚲🚲🚲🚲🚲🚲🛴",
        "k" + "l" * 199,
        "eve sat on a hill",
    ],
)
def test_long_and_uncommon_password_is_accepted(password: str) -> None:
    assert find_weakness(password, EMAIL) is None


@pytest.mark.parametrize("password", ["", "abcdefghi", "x" * 199 + "yz"])
def test_password_outside_10_to_200_characters_is_rejected(password: str) -> None:
    assert find_weakness(password, EMAIL) == "Password must have 10 to 200 characters."


@pytest.mark.parametrize(
    "password",
    [
        "password123",
        "PassWord123",
        "1234567890",
        "qwertyuiop",
        "Password1!",
        "!!!password!!!",
        "123letmein456",
        "aaaaaaaaaaaa",
        "\N{FULLWIDTH LATIN SMALL LETTER P}assword123",
    ],
)
def test_common_password_is_rejected_in_every_disguise(password: str) -> None:
    assert find_weakness(password, EMAIL) == "This password is too common."


def test_common_word_among_many_characters_is_accepted() -> None:
    assert not is_common("password 83746 29102")


@pytest.mark.parametrize("password", ["eve.adams-2026", "my EVE.ADAMS rules"])
def test_password_with_the_name_of_the_address_is_rejected(password: str) -> None:
    assert find_weakness(password, EMAIL) == "Password must not contain the part of your e-mail address before the @."


def test_short_name_of_the_address_is_rejected_only_as_a_whole_word() -> None:
    assert find_weakness("seven green bicycles", "eve@example.com") is None
    for password in ("Eve and the hills", "!!!!eve2026!!!!", "green_eve_green"):
        assert find_weakness(password, "eve@example.com") is not None


def test_two_letter_name_of_the_address_is_accepted_in_a_password() -> None:
    assert find_weakness("seven green bicycles", "se@example.com") is None


def test_equivalent_unicode_forms_of_a_password_are_equal() -> None:
    assert normalize("cafe\u0301 au lait") == normalize("caf\u00e9 au lait")

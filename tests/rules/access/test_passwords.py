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
def test_whatever_is_long_and_not_usual_is_good(password: str) -> None:
    assert find_weakness(password, EMAIL) is None


@pytest.mark.parametrize("password", ["", "abcdefghi", "x" * 199 + "yz"])
def test_fewer_than_10_and_more_than_200_characters_are_refused(password: str) -> None:
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
def test_what_everybody_tries_first_is_refused_however_it_is_dressed_up(password: str) -> None:
    assert find_weakness(password, EMAIL) == "This password is too common."


def test_many_characters_around_a_common_word_make_it_a_password_of_its_own() -> None:
    assert not is_common("password 83746 29102")


@pytest.mark.parametrize("password", ["eve.adams-2026", "my EVE.ADAMS rules"])
def test_the_name_of_the_address_is_refused(password: str) -> None:
    assert find_weakness(password, EMAIL) == "Password must not contain the part of your e-mail address before the @."


def test_a_short_name_is_refused_as_a_word_of_its_own_alone() -> None:
    assert find_weakness("seven green bicycles", "eve@example.com") is None
    for password in ("Eve and the hills", "!!!!eve2026!!!!", "green_eve_green"):
        assert find_weakness(password, "eve@example.com") is not None


def test_a_name_of_two_letters_is_in_too_many_words_to_be_refused() -> None:
    assert find_weakness("seven green bicycles", "se@example.com") is None


def test_one_password_typed_on_two_keyboards_is_the_same() -> None:
    assert normalize("cafe\u0301 au lait") == normalize("caf\u00e9 au lait")

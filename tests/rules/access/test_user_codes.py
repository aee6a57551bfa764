"""The codes that people carry from a device to a browser."""

import math

import pytest

from rules.access.user_codes import ALPHABET, LENGTH, new_user_code, read_user_code


def test_user_code_has_over_forty_bits_and_no_vowels() -> None:
    assert math.log2(len(ALPHABET) ** LENGTH) > 40
    assert not set("AEIOUY0123456789") & set(ALPHABET)
    assert len({new_user_code() for _ in range(1000)}) == 1000


def test_new_user_code_can_be_read() -> None:
    code = new_user_code()
    assert read_user_code(code) == code


@pytest.mark.parametrize(
    "typed", ["wdjbm-jhtxk", "WDJBMJHTXK", " WDJBM JHTXK\n", "WDJ-BMJ-HTXK", "w d j b m j h t x k"]
)
def test_user_code_ignores_case_spaces_and_hyphens(typed: str) -> None:
    assert read_user_code(typed) == "WDJBM-JHTXK"


@pytest.mark.parametrize(
    "typed", ["", "WDJBM", "WDJBM-JHTXKB", "WDJBM-JHTXA", "WDJBM_JHTXK", "ßDJBMJHTX", "WDJBM-JHTX\0"]
)
def test_malformed_user_code_is_rejected(typed: str) -> None:
    assert read_user_code(typed) is None

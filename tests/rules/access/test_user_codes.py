"""The codes that people carry from a device to a browser."""

import math

import pytest

from rules.access.user_codes import ALPHABET, LENGTH, new_user_code, read_user_code


def test_a_code_has_more_than_forty_bits_and_is_no_word() -> None:
    assert math.log2(len(ALPHABET) ** LENGTH) > 40
    assert not set("AEIOUY0123456789") & set(ALPHABET)
    assert len({new_user_code() for _ in range(1000)}) == 1000


def test_what_is_made_is_read() -> None:
    code = new_user_code()
    assert read_user_code(code) == code


@pytest.mark.parametrize(
    "typed", ["wdjbm-jhtxk", "WDJBMJHTXK", " WDJBM JHTXK\n", "WDJ-BMJ-HTXK", "w d j b m j h t x k"]
)
def test_case_spaces_and_hyphens_do_not_matter(typed: str) -> None:
    assert read_user_code(typed) == "WDJBM-JHTXK"


@pytest.mark.parametrize(
    "typed", ["", "WDJBM", "WDJBM-JHTXKB", "WDJBM-JHTXA", "WDJBM_JHTXK", "ßDJBMJHTX", "WDJBM-JHTX\0"]
)
def test_anything_else_is_no_code(typed: str) -> None:
    assert read_user_code(typed) is None

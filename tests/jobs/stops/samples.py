"""Which of many alike cases run: some in `make test`, more in `make check`, all of them in `make soak`."""

import os
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
IN_SOAK = "EVERY_CASE" in os.environ


def sampled(
    cases: Iterable[T], *, quick: Collection[T], checked: Collection[T], name: Callable[[T], str] = str
) -> list[Any]:
    """Return the cases as parameters: `quick` ones run in `make test`, the `checked` ones in `make check`.

    A case that is a tuple gives several arguments.
    """
    listed = [case for case in cases if IN_SOAK or case in quick or case in checked]
    marks: dict[bool, Any] = {True: (), False: pytest.mark.check}
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks[case in quick], id=name(case))
        for case in listed
    ]

"""What a quick run of the fuzzing leaves out of the coverage phase."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from schemathesis.core import NOT_SET
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario

from tools.fuzz.thinning import SHARE, Thinning

Keeps = Callable[..., bool]


@pytest.fixture
def keeps() -> Keeps:
    thinning = Thinning(seed=1)

    def keeps(operation: str, scenario: CoverageScenario | None, parameter: str = "") -> bool:
        place = ParameterLocation.BODY if parameter == "" else ParameterLocation.QUERY
        data = (
            CoveragePhaseData(
                scenario=scenario, description="", location="", parameter=parameter, parameter_location=place
            )
            if scenario
            else None
        )
        case: Any = SimpleNamespace(method="POST", body=NOT_SET, meta=SimpleNamespace(phase=SimpleNamespace(data=data)))
        return thinning.keeps(operation, case)

    return keeps


def test_first_case_of_each_kind_is_kept(keeps: Keeps) -> None:
    kinds = [
        (operation, scenario, parameter)
        for operation in ("create_freeze", "lift_freeze")
        for scenario in CoverageScenario
        for parameter in ("", "limit")
    ]
    assert all(keeps(*kind) for kind in kinds)


def test_share_of_the_cases_that_are_alike_is_kept(keeps: Keeps) -> None:
    kept = sum(keeps("create_freeze", CoverageScenario.INCORRECT_TYPE) for _ in range(1000))
    assert SHARE * 500 < kept < SHARE * 2000


def test_every_case_of_other_phases_is_kept(keeps: Keeps) -> None:
    assert all(keeps("create_freeze", None) for _ in range(20))

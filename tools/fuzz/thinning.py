"""Which cases of the coverage phase a quick run sends: of some operations there are more than a thousand."""

import random
from typing import Any

from schemathesis import Case
from schemathesis.core import NOT_SET
from schemathesis.generation.meta import CoveragePhaseData

SHARE = 0.1
"""Of the cases that are like one before them."""


class Thinning:
    """Keeps the first case of each kind, and a share of the others, which a seed chooses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kept: set[tuple[object, ...]] = set()

    def keeps(self, operation: str, case: Case[Any]) -> bool:
        """Return True if a case is sent.

        Cases of one kind break the same rule, or the same limit of a valid value, in the same place.
        """
        data = case.meta.phase.data if case.meta is not None else None
        if not isinstance(data, CoveragePhaseData):
            return True
        without_body = case.body is NOT_SET
        kind = (operation, case.method, without_body, data.scenario, data.parameter_location, data.parameter)
        if kind not in self._kept:
            self._kept.add(kind)
            return True
        return self._random.random() < SHARE

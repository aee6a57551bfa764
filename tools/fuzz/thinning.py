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

    def keeps(self, operation: str, case: Case[Any], *, refused: bool) -> bool:
        """Return True if a case is sent; `refused` if the contract lets no credential like the run's in.

        Cases of one kind break the same rule, or the same limit of a valid value, in the same place. An operation that
        refuses the credential looks at nothing else: one case is of the same kind as all with a body, or without.
        """
        data = case.meta.phase.data if case.meta is not None else None
        if not isinstance(data, CoveragePhaseData):
            return True
        kind: tuple[object, ...] = (operation, case.method, case.body is NOT_SET)
        if not refused:
            kind += (data.scenario, data.parameter_location, data.parameter)
        elif kind in self._kept:
            return False
        if kind not in self._kept:
            self._kept.add(kind)
            return True
        return self._random.random() < SHARE

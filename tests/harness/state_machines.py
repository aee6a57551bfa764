"""Running state machines of Hypothesis, in the same way everywhere.

TEST_SEED=random explores, TEST_SEED=<number> repeats, INVARIANT_EXAMPLES makes it longer, INVARIANT_SHRINK=1 looks for
the shortest failure.
"""

import os
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.harness.random_seed import chosen_seed, exploring

MORE = 3
"""How many times as many histories there are with a random seed: other runs repeat the same ones."""


def explore(machine: type[RuleBasedStateMachine], histories: int, *, steps: int, **given: Any) -> None:
    """Run a state machine, with these attributes of its class, as often as given or configured."""
    chosen = type("GivenMachine", (machine,), given)
    seed(chosen_seed() + histories)(chosen)  # other histories in each part of the tests
    run_state_machine_as_test(
        chosen,
        settings=settings(
            max_examples=int(os.environ.get("INVARIANT_EXAMPLES", histories * (MORE if exploring() else 1))),
            stateful_step_count=steps,
            deadline=None,
            database=None,
            # Shrinking takes minutes: it is for the run that repeats a failure, not for the one that finds it.
            phases=[Phase.generate, *([Phase.shrink] if "INVARIANT_SHRINK" in os.environ else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )

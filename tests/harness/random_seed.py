"""The seed of everything random in a run.

The same in every ordinary run, so that what passed once passes again; `TEST_SEED=random` explores, `TEST_SEED=<number>`
repeats. Its users print it.
"""

import os
import random

USUAL = 20_261_121


def exploring() -> bool:
    """True if this run explores with a random seed."""
    return os.environ.get("TEST_SEED") == "random"


def chosen_seed() -> int:
    """Return the run's seed, or a fresh one while exploring, and print it."""
    given = os.environ.get("TEST_SEED", str(USUAL))
    seed = random.SystemRandom().randrange(2**32) if exploring() else int(given)
    print(f"TEST_SEED={seed}")  # noqa: T201 - to repeat a failure with
    return seed

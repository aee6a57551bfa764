"""Webhooks are hints (I11): doubled, shuffled, late and lost, they end in the same state."""

import time
from collections.abc import Sequence

from tests.faults.suite.trial import Trial, fault

KINDS = ("webhook_duplicate", "webhook_reorder", "webhook_delay", "webhook_drop")


def story(trial: Trial) -> None:
    """Freeze and lift, while people push, close and reopen."""
    for _ in range(3):
        freeze = trial.client.freeze()
        for _ in range(4):
            trial.people.push_somewhere(trial.random)
        trial.people.close_and_reopen(*trial.random.choice(trial.people.open_pulls()))
        time.sleep(0.2)
        trial.client.lift(freeze)
        trial.people.push_somewhere(trial.random)
    trial.client.freeze()
    trial.people.push_somewhere(trial.random)


@fault("Every webhook arrives twice", quick=False, kinds=("webhook_duplicate",))
@fault("Webhooks arrive in another order", quick=False, kinds=("webhook_reorder",))
@fault("Webhooks are late by seconds", quick=False, kinds=("webhook_delay",), probability=0.6, seconds=2.0)
@fault(
    "30 % of all webhooks are lost: the full resync finds their changes",
    quick=False,
    kinds=("webhook_drop",),
    probability=0.3,
)
@fault("Webhooks are doubled, shuffled, late and lost at once", kinds=KINDS, probability=0.3)
@fault("No webhook arrives at all: the full resync is enough", kinds=("webhook_drop",))
def disturbed(trial: Trial, kinds: Sequence[str], probability: float = 1.0, seconds: float = 0.5) -> None:
    faults = trial.stack.github.faults
    for kind in kinds:
        faults.add(kind, "webhook ", probability=probability, seconds=seconds, seed=trial.random.randrange(2**32))
    story(trial)
    trial.injected()

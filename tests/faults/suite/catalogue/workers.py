"""Workers that die, stop and come too late."""

from tests.faults.suite.catalogue.ways import first_caught, trap_hands
from tests.faults.suite.trial import Trial, fault

LEASE = 40.0


@fault("A worker is killed in mid fan-out", within=90)
def killed_in_mid_fan_out(trial: Trial) -> None:
    stack = trial.stack
    traps = trap_hands(stack, "codehost", "createCheckRun")
    trial.client.freeze()
    hand = first_caught(traps)
    hand.kill()
    trial.injected()
    traps[hand].cut()
    for trap in traps.values():
        trap.release()
    hand.start()
    stack.skip(LEASE)

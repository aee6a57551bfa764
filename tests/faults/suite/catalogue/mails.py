"""A mail server that hangs or refuses connections, and workers that die while mails wait: a freeze waits for none.

The owner of `acme` gets mails of freezes while these faults are tried. In the end each event has come in one mail.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.suite.catalogue.steps import freeze_and_lift
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault

WITHIN = 90.0
PATH = "/v1/me/notifications"


class Reader:
    """The owner of `acme`, who chose to get mails of freezes that start and end."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.stack = trial, trial.stack
        self.read = len(self.stack.mailbox.mails)

    def choose(self, *kinds: str) -> None:
        """Choose what the owner gets mails of."""
        self.trial.client.as_owner("PATCH", PATH, {"kinds": kinds})

    def lines(self) -> list[str]:
        """Return what the mails since then say, of a mail that came twice (under one id) once."""
        mails = {mail.headers["Message-ID"]: mail for mail in self.stack.mailbox.mails[self.read :]}
        return [line for mail in mails.values() for line in mail.text.splitlines() if line.startswith("- ")]

    def counts(self) -> dict[str, int]:
        """Return how often each start and lift of the trial's freezes is said."""
        lines = self.lines()
        wanted = [f"{verb} a freeze: Requested under {key}." for key in self.trial.ledger.keys for verb in VERBS]
        return {text: sum(text in line for line in lines) for text in wanted}


VERBS = ("started", "lifted")


@contextmanager
def reading(trial: Trial) -> Iterator[Reader]:
    """Have the owner get mails during the block; at its end every event has come, in one mail."""
    trial.stack.sql(
        "INSERT INTO notification_destinations (id, organization_id, channel, sequence) "
        "SELECT %s, %s, 'mail', coalesce(max(sequence), 0) FROM audit_seals WHERE organization_id = %s "
        "ON CONFLICT DO NOTHING",
        *[trial.stack.acme.id] * 3,
    )
    reader = Reader(trial)
    reader.choose("freeze.started", "freeze.ended")
    try:
        yield reader
        trial.injected()
        trial.stack.wires_to("mail").heal()

        def is_complete() -> bool:
            trial.stack.send_now("mails")
            return all(reader.counts().values())

        wait_until(is_complete, "a mail of every event", WITHIN, 0.3, lambda: str(reader.counts()))
        again = {text: count for text, count in reader.counts().items() if count > 1}
        trial.require(not again, f"each event is in one mail, but {again}")
    finally:
        trial.stack.wires_to("mail").heal()
        reader.choose()


@fault("The mail server hangs: freezes and lifts do not wait for it, and mails arrive later", within=WITHIN, load=False)
def hang(trial: Trial) -> None:
    with reading(trial):
        trial.stack.wires_to("mail").hang()
        freeze_and_lift(trial)
        freeze_and_lift(trial)


@fault("The mail server refuses connections: freezes go on, and mails arrive later", within=WITHIN, load=False)
def refuse(trial: Trial) -> None:
    with reading(trial):
        trial.stack.wires_to("mail").refuse()
        freeze_and_lift(trial)


@fault("Workers are killed while they notify: each event is in one mail", within=WITHIN, load=False)
def killed_while_notifying(trial: Trial) -> None:
    with reading(trial):
        freeze = trial.client.freeze()
        for reconciler in trial.stack.reconcilers:
            reconciler.kill()
            reconciler.start()
        trial.client.lift(freeze)
        for reconciler in trial.stack.reconcilers:
            reconciler.kill()
            reconciler.start()

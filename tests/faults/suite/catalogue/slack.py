"""Slack that hangs, fails and limits us, and workers that die with a message in hand.

A channel of `acme` is subscribed while these faults are tried. Freezes and lifts wait for none of it, and afterwards
the channel is notified as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.suite.catalogue.steps import freeze_and_lift
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tools.fake_slack.model import Message

WITHIN = 120.0
POST = "POST /api/chat.postMessage"


class Channel:
    """#releases in the workspace of `acme`."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.stack, self.slack = trial, trial.stack, trial.stack.slack

    def connect(self) -> None:
        """Install the app, once the token of a former connection is revoked, and subscribe the channel."""
        removed = "SELECT FROM slack_connections WHERE removed_at IS NOT NULL"
        wait_until(lambda: not self.stack.sql(removed), "the end of the former token", WITHIN)
        url = self.trial.client.as_owner("GET", "/v1/slack/install-url")["url"]
        back = self.slack.install(url)
        self.trial.client.as_owner("POST", "/v1/slack/claim", {"state": back["state"], "code": back["code"]})
        body = {"channelId": "C0RELEASES", "channelName": "releases", "events": ["freeze.started", "freeze.ended"]}
        self.trial.client.as_owner("POST", "/v1/slack/subscriptions", body)

    def disconnect(self) -> None:
        """Disconnect the workspace, whatever became of it."""
        self.trial.client.as_owner("DELETE", "/v1/slack")

    def messages(self, freeze_id: str) -> list[Message]:
        """Return what the channel shows of a freeze, without the threads."""
        with self.slack.lock:
            return [each for each in self.slack.messages if freeze_id in str(each.blocks) and each.thread_ts is None]

    def shows_end(self, freeze_id: str) -> bool:
        """True if the message of a freeze says that it has ended."""
        self.stack.send_now("slack_messages")
        return any("Merging was frozen" in str(each.blocks) for each in self.messages(freeze_id))

    def is_at_rest(self) -> bool:
        """True if nothing is to be sent."""
        self.stack.send_now("slack_messages")
        return not self.stack.sql("SELECT FROM slack_messages WHERE due_at IS NOT NULL")


@contextmanager
def subscribed(trial: Trial) -> Iterator[Channel]:
    """Have a subscribed channel during the block; at its end Slack works, and the channel is notified of a freeze."""
    channel = Channel(trial)
    channel.connect()
    try:
        yield channel
        trial.injected()
        trial.stack.slack.faults.clear()
        trial.stack.wires_to("fake_slack").heal()
        wait_until(channel.is_at_rest, "the messages that wait", WITHIN, 0.3)
        freeze = freeze_and_lift(trial)
        wait_until(lambda: channel.shows_end(freeze), "the message of a freeze afterwards", WITHIN, 0.3)
        trial.require(len(channel.messages(freeze)) == 1, "a freeze has one message")
    finally:
        channel.disconnect()


@fault("Slack hangs: freezes and lifts do not wait, and later ones are posted", within=WITHIN, load=False)
def hang(trial: Trial) -> None:
    with subscribed(trial):
        trial.stack.wires_to("fake_slack").hang()
        freeze_and_lift(trial)


@fault("Slack fails and limits us: messages arrive later, and once", within=WITHIN, load=False, quick=False)
def fail_and_limit(trial: Trial) -> None:
    with subscribed(trial) as channel:
        channel.slack.faults.add("error", POST, status=503, count=2)
        channel.slack.faults.add("error", POST, status=429, headers={"Retry-After": "1"}, count=2)
        freezes = [freeze_and_lift(trial) for _ in range(2)]
        for freeze in freezes:
            wait_until(lambda each=freeze: channel.shows_end(each), "the message of a freeze", WITHIN, 0.3)  # type: ignore[misc]
        trial.require(all(len(channel.messages(each)) == 1 for each in freezes), "a freeze has one message")


@fault("The Slack app is uninstalled while messages wait: they are dropped", within=WITHIN, load=False)
def uninstalled(trial: Trial) -> None:
    channel = Channel(trial)
    channel.connect()
    try:
        channel.slack.faults.add("error", POST, status=503)
        freeze_and_lift(trial)
        replies = channel.slack.uninstall()
        trial.require([reply.status for reply in replies] == [200, 200], "both events are answered")
        wait_until(channel.is_at_rest, "the messages that are dropped", WITHIN, 0.3)
        trial.require(trial.client.as_owner("GET", "/v1/slack")["state"] == "lost", "the connection is lost")
    finally:
        channel.slack.faults.clear()
        channel.disconnect()


@fault(
    "Workers are killed before the record of a message: it is posted twice at most",
    within=WITHIN,
    load=False,
    quick=False,
)
def killed_before_the_record(trial: Trial) -> None:
    with subscribed(trial) as channel:
        channel.slack.faults.add("timeout", POST, after=True, seconds=3, count=1)
        freeze = trial.client.freeze()
        wait_until(lambda: bool(channel.messages(freeze)), "the message of the freeze", WITHIN)
        for reconciler in trial.stack.reconcilers:
            reconciler.kill()
        for reconciler in trial.stack.reconcilers:
            reconciler.start()
        trial.client.lift(freeze)
        wait_until(lambda: channel.shows_end(freeze), "the end of the freeze", WITHIN, 0.3)
        trial.require(len(channel.messages(freeze)) <= 2, "a message is posted twice at most")

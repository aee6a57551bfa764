"""The state file: everything that a second start needs, as one JSON document, replaced atomically."""

import itertools
from dataclasses import asdict
from pathlib import Path

import orjson

from tools.fake_slack.core import Core
from tools.fake_slack.model import Channel, Form, Message, ResponseAddress, Token, Workspace
from tools.fake_slack.settings import Settings
from tools.simulation.process import read_state, replace_file

VERSION = 1


def save(core: Core, path: Path) -> None:
    """Write the state file."""
    with core.lock:
        document = orjson.dumps(
            {
                "version": VERSION,
                "settings": asdict(core.settings),
                "next": next(core.numbers),
                "workspaces": [asdict(each) for each in core.workspaces.values()],
                "tokens": [asdict(each) for each in core.tokens],
                "messages": [asdict(each) for each in core.messages],
                "forms": [asdict(each) for each in core.forms.values()],
                "responses": {number: asdict(each) for number, each in core.responses.items()},
            }
        )
    replace_file(path, document)


def load(core: Core, path: Path) -> None:
    """Read the state file, if there is one of this version."""
    found = read_state(path, VERSION)
    if found is None:
        return
    core.settings = Settings(**found["settings"])
    core.numbers = itertools.count(found["next"])
    core.workspaces = {}
    for each in found["workspaces"]:
        channels = {name: Channel(**channel) for name, channel in each.pop("channels").items()}
        core.workspaces[each["id"]] = Workspace(**each, channels=channels)
    core.tokens = [Token(**each) for each in found["tokens"]]
    core.messages = [Message(**each) for each in found["messages"]]
    core.forms = {each["id"]: Form(**each) for each in found["forms"]}
    core.responses = {number: ResponseAddress(**each) for number, each in found["responses"].items()}

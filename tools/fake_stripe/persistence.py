"""The state file: everything in one JSON document, replaced atomically."""

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import orjson

from tools.fake_stripe.core import Core
from tools.fake_stripe.settings import Settings
from tools.simulation.process import read_state, replace_file

VERSION = 3


def save(core: Core, path: Path) -> None:
    """Write the state file."""
    with core.lock:
        state = {
            "version": VERSION,
            "ahead": core.ahead,
            "settings": asdict(core.settings),
            "objects": core.store.objects,
            "hidden": core.store.hidden,
            "deleted": sorted(core.store.deleted),
        }
        document = orjson.dumps(state)
    replace_file(path, document)


def load(core: Core, path: Path) -> None:
    """Read the state file, if there is one of this version."""
    found = read_state(path, VERSION)
    if found is None:
        return
    core.ahead = found["ahead"]
    core.settings = Settings(**found["settings"])
    core.store.objects = defaultdict(dict, found["objects"])
    core.store.hidden = defaultdict(dict, found["hidden"])
    core.store.deleted = set(found["deleted"])
    for subscription in core.store.objects["subscription"].values():
        for item in subscription["items"]["data"]:  # a price that changes changes in its subscriptions
            item["price"] = core.store.objects["price"][item["price"]["id"]]

"""The sources of the contract, the files of `contract/`, merged as data.

`shared.yaml` has what is said once, and the components that several tags use. The file of a tag has its paths, and the
components that only they use; it is named after the tag, as its module of `handlers/` is.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from schemas.contract import METHODS, ContractError, parse_yaml
from tools.contract.document import Document, Place, Problem, inside_example

FOLDER = "contract"
SHARED = "shared.yaml"
_OF_TAGS = frozenset({"paths", "components"})


def read_sources(root: Path) -> dict[str, bytes]:
    """Return name → text of the files in `contract/` below `root`."""
    return {path.name: path.read_bytes() for path in sorted((root / FOLDER).glob("*.yaml"))}


def file_of_tag(tag: str) -> str:
    """Return the name of the file with the operations of a tag: `api_keys.yaml` of `API keys`."""
    return f"{tag.lower().replace(' ', '_').replace('-', '_')}.yaml"


def merge(texts: Mapping[str, bytes]) -> tuple[Document, list[Problem], list[Problem]]:
    """Return the contract that the files give, not completed, what keeps it from being made, and what else is wrong."""
    read: dict[str, tuple[dict[str, Any], yaml.Node]] = {}
    problems: list[Problem] = []
    for name, text in {SHARED: b"", **texts}.items():
        try:
            read[name] = parse_yaml(text), cast("yaml.Node", yaml.compose(text, yaml.CSafeLoader))
        except ContractError as error:
            problems.append(Problem(f"{FOLDER}/{name}", 1, "document", " ".join(str(error).split())))
    if problems:
        return Document({}), problems, []
    merge = _Merge(read)
    return merge.document, [*merge.blocking()], [*merge.foreign()]


class _Merge:
    def __init__(self, read: Mapping[str, tuple[dict[str, Any], yaml.Node]]) -> None:
        shared = read[SHARED][0]
        self._read = read
        self._tags = {file_of_tag(tag["name"]): str(tag["name"]) for tag in shared.get("tags", ())}
        self._owners: dict[Place, str] = {}
        """Place of a component or of a part of a path → the file that has it."""
        self._twice: list[Problem] = []
        head = {key: value for key, value in shared.items() if not key.startswith("x-") and key != "components"}
        self._root = {**head, "paths": {}, **shared, "components": {}}
        self.document = Document(self._root, [(f"{FOLDER}/{name}", node) for name, (_, node) in read.items()])
        for name in [SHARED, *(name for name in self._tags if name in read)]:
            self._add(name)

    def _add(self, name: str) -> None:
        """Add paths and components of a file."""
        content = self._read[name][0]
        for kind, components in content.get("components", {}).items():
            for component, value in components.items():
                self._put(name, ("components", kind, component), value)
        for path, item in content.get("paths", {}).items():
            for key, value in item.items():
                tagged = {**value, "tags": [self._tags.get(name, "")]} if key in METHODS else value
                self._put(name, ("paths", path, key), tagged)

    def _put(self, name: str, place: tuple[str, str, str], value: Any) -> None:
        if place in self._owners:
            self._twice.append(self._problem(name, place, f"stands in {self._owners[place]} already"))
        self._owners[place] = name
        self._root[place[0]].setdefault(place[1], {})[place[2]] = value

    def _problem(self, name: str, place: Place, message: str) -> Problem:
        content, node = self._read[name]
        return Document(content, [(f"{FOLDER}/{name}", node)]).problem(place, message)

    def blocking(self) -> Iterator[Problem]:
        """Yield the files, places and references that are wrong."""
        yield from self._twice
        for name, (content, _) in self._read.items():
            if name not in {SHARED, *self._tags}:
                yield self._problem(name, (), f"belongs to none of the tags in {SHARED}")
            for key in content.keys() & {"paths"} if name == SHARED else content.keys() - _OF_TAGS:
                yield self._problem(name, (key,), f"{key} stands in {'files of tags' if name == SHARED else SHARED}")
            for path, item in content.get("paths", {}).items():
                for method in METHODS:
                    if "tags" in item.get(method, ()):
                        yield self._problem(name, ("paths", path, method, "tags"), "its tag follows from its file")
        for place, reference in self._references():
            if not self.document.has(reference):
                yield self.document.problem(place, f"{reference} does not exist")

    def foreign(self) -> Iterator[Problem]:
        """Yield the references to what stands in the file of another tag."""
        for place, reference in self._references():
            owner = self._owners.get(tuple(reference.removeprefix("#/").split("/")[:3]), SHARED)
            if owner not in {SHARED, self._owners.get(place[:3])}:
                yield self.document.problem(place, f"{reference} stands in {owner}: move it to {SHARED}")

    def _references(self) -> Iterator[tuple[Place, str]]:
        for place, value in self.document.nodes():
            if place[-1:] == ("$ref",) and not inside_example(place):
                yield place, str(value)

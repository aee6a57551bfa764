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
    files: dict[str, Document] = {}
    blocking: list[Problem] = []
    for name, text in {SHARED: b"", **texts}.items():
        file = f"{FOLDER}/{name}"
        try:
            files[name] = Document(parse_yaml(text), [(file, cast("yaml.Node", yaml.compose(text, yaml.CSafeLoader)))])
        except ContractError as error:
            blocking.append(Problem(file, 1, "document", " ".join(str(error).split())))
    if blocking:
        return Document({}), blocking, []
    shared = files[SHARED].root
    tags = {file_of_tag(tag["name"]): str(tag["name"]) for tag in shared.get("tags", ())}
    head = {key: value for key, value in shared.items() if not key.startswith("x-") and key != "components"}
    root: dict[str, Any] = {**head, "paths": {}, **shared, "components": {}}
    owners: dict[Place, str] = {}
    """Place of a component or of a part of a path → the file that has it."""
    for name in [SHARED, *(name for name in tags if name in files)]:
        for place, value in _parts(files[name].root, tags.get(name, "")):
            if place in owners:
                blocking.append(files[name].problem(place, f"stands in {owners[place]} already"))
            owners[place] = name
            root[place[0]].setdefault(place[1], {})[place[2]] = value
    document = Document(root, [source for file in files.values() for source in file.sources])
    references = [
        (place, str(value))
        for place, value in document.nodes()
        if place[-1:] == ("$ref",) and not inside_example(place)
    ]
    blocking += [problem for name in files for problem in _misplaced(name, files[name], tags)]
    blocking += [document.problem(at, f"{text} does not exist") for at, text in references if not document.has(text)]
    return document, blocking, [*_foreign(document, references, owners)]


def _parts(content: Mapping[str, Any], tag: str) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Yield the components and the parts of paths of a file, each with its place."""
    for kind, components in content.get("components", {}).items():
        for component, value in components.items():
            yield ("components", kind, component), value
    for path, item in content.get("paths", {}).items():
        for key, value in item.items():
            yield ("paths", path, key), {**value, "tags": [tag]} if key in METHODS else value


def _misplaced(name: str, file: Document, tags: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what a file must not have."""
    if name not in {SHARED, *tags}:
        yield file.problem((), f"belongs to none of the tags in {SHARED}")
    for key in file.root.keys() & {"paths"} if name == SHARED else file.root.keys() - _OF_TAGS:
        yield file.problem((key,), f"{key} stands in {'files of tags' if name == SHARED else SHARED}")
    for operation in file.operations():
        if "tags" in operation.raw:
            yield operation.problem("its tag follows from its file", "tags")


def _foreign(document: Document, references: list[tuple[Place, str]], owners: Mapping[Place, str]) -> Iterator[Problem]:
    """Yield the references to what stands in the file of another tag."""
    for place, reference in references:
        owner = owners.get(tuple(reference.removeprefix("#/").split("/")[:3]), SHARED)
        if owner not in {SHARED, owners.get(place[:3])}:
            yield document.problem(place, f"{reference} stands in {owner}: move it to {SHARED}")

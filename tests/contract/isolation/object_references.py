"""Where requests name objects: made from the contract, so that a new operation is taken in by itself."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import httpx

from schemas.contract import Node, Operation, load_contract
from schemas.dialect import standard_schema
from tests.harness.tenant_fixtures import TenantFixture

CONTRACT = load_contract()
CREDENTIALLED = [
    one
    for one in CONTRACT.operations.values()
    if (one.accepts("ApiKey") or one.accepts("Session")) and one.database_role == "organization"
]
"""Operations in one organisation. What concerns a person is that person's alone: see `tests/handlers`."""
NAMES_SOMETHING = re.compile(r"(?:.*Ids?|account|repo|ref|repository|repositories|pullRequest|branchId)")
"""Parameters and properties that name an object."""
UNOWNED = {("claim_installation", "installationId"), ("subscribe_slack_channel", "channelId")}
"""The object named there gets an owner, or is Slack's; `tests/handlers/installations` tests which owner."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Where a request names an object."""

    operation: Operation
    where: str
    """`path`, `query` or `body`."""
    name: str
    body: Any = None
    steps: tuple[str | int, ...] = ()

    @property
    def kind(self) -> str:
        """What the value is of."""
        return kind(self.operation, self.name)

    def __str__(self) -> str:
        return f"{self.operation.id} {self.where} {'/'.join(map(str, self.steps)) or self.name}"


def kind(operation: Operation, name: str) -> str:
    """Return what a parameter or property of this name is of; the classic service calls names what we call ids."""
    return {"repository": "repositoryName", "branch": "branchName"}.get(name, name) if operation.classic else name


def references() -> Iterator[ObjectReference]:
    """Yield every reference of the contract to an object."""
    for operation in CREDENTIALLED:
        bodies = list(samples(operation.body["application/json"])) if operation.body else [(None, ())]
        for parameter in operation.parameters:
            if parameter.location in {"path", "query"} and NAMES_SOMETHING.fullmatch(parameter.name):
                yield ObjectReference(operation, parameter.location, parameter.name, bodies[0][0])
        for body, steps in bodies:
            if steps:
                name = next(step for step in reversed(steps) if isinstance(step, str))
                if (operation.id, name) not in UNOWNED:
                    yield ObjectReference(operation, "body", name, body, steps)


def samples(node: Node) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Yield bodies of a schema: the least one without steps, and one for each reference inside.

    A form that has all of another and more is left out: its references are those of the others, and have to agree.
    """
    node = CONTRACT.resolve(node)
    if "x-forms" in node:
        forms = [form for form in node["x-forms"] if not any({*other} < {*form} for other in node["x-forms"])]
        node = {**node, "x-forms": forms}
    node = standard_schema(node)
    least = _least(node)
    yield least, ()
    for branch in node.get("oneOf", ()):
        yield from (found for found in samples(branch) if found[1])
    for name, child in node.get("properties", {}).items():
        for value, steps in samples(child):
            if steps or NAMES_SOMETHING.fullmatch(name):
                filled = {**deepcopy(least), name: value}
                deeper = steps or ((0,) if isinstance(value, list) else ())
                yield filled, (name, *deeper)
    if "items" in node:
        yield from (([value], (0, *steps)) for value, steps in samples(node["items"]) if steps)


def _least(node: Node) -> Any:
    """Return the smallest value of a schema that the contract accepts."""
    node = standard_schema(CONTRACT.resolve(node))
    if "oneOf" in node:
        return _least(node["oneOf"][0])
    if "enum" in node:
        return node["enum"][0]
    kind = node.get("type")
    if kind == "object":
        names = node.get("required") or [*node.get("properties", ())][: node.get("minProperties", 0)]
        return {name: _least(node["properties"][name]) for name in names}
    if kind == "array":
        return [_least(node["items"])] if node.get("minItems") else []
    return node.get("example", {"boolean": True, "integer": node.get("minimum", 1)}.get(str(kind), "xxxxxxxx"))


_REQUIRED = {"month": "2026-12", "firstDay": "2026-11-27", "lastDay": "2026-11-28"}
"""Values of parameters that an operation needs, and that are no numbers."""


def send(http: httpx.Client, caller: TenantFixture, reference: ObjectReference, value: str) -> httpx.Response:
    """Call the operation as `caller`, with `value` in this reference and their own objects in all others."""
    operation = reference.operation
    path = operation.path
    for parameter in operation.parameters:
        if parameter.location == "path":
            given = (
                value
                if reference.where == "path" and parameter.name == reference.name
                else caller.names(kind(operation, parameter.name))[0][0]
            )
            path = path.replace("{" + parameter.name + "}", given.replace("/", "%2F"))
    required = [one.name for one in operation.parameters if one.location == "query" and one.required]
    query = {name: _REQUIRED.get(name, "7") for name in required}
    if reference.where == "query":
        query[reference.name] = value
    body = deepcopy(reference.body)
    if operation.classic and body is not None:
        named = {"account", "repository", "branch"} & body.keys()
        body |= {name: caller.names(kind(operation, name))[0][0] for name in named}
    if reference.where == "body":
        _put(body, reference.steps, value)
    request = {"json": body} if body is not None else {}
    headers = {"Authorization": f"Bearer {caller.credential(operation)}"}
    return http.request(operation.method, path, params=query, headers=headers, **request)


def _put(body: Any, steps: Sequence[str | int], value: str) -> None:
    for step in steps[:-1]:
        body = body[step]
    body[steps[-1]] = value

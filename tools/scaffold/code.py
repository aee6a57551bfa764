"""The Python text of one operation: its handler, its service stub and its test class."""

from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any
from urllib.parse import quote

from rules.contract_names import snake_case
from schemas.contract import Contract, Node, Operation

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict[str, Any]"}
_MAX_PARAMETERS = 5
"""Of a function with a name for each; more are too many to read in a call."""


@dataclass(frozen=True)
class Source:
    """The Python text of one operation."""

    contract: Contract
    operation: Operation

    service: str
    """The name of the stub's module where the handler uses it."""

    @property
    def summary(self) -> str:
        """The operation's summary, without a full stop."""
        return str(self._raw["summary"]).rstrip(".")

    def functions(self) -> tuple[str, str]:
        """Return the handler, a function of the operation's name, and the service function that it calls, a stub."""
        is_async = not self.operation.security and self.operation.effect == "read"  # it needs no transaction
        first = ("context", "ReadContext") if is_async else ("uow", "UnitOfWork")
        others = sorted(self._arguments(), key=lambda pair: (pair[0].startswith("**"), pair[1] == "bool"))
        arguments = [first, *others]
        switches = [name for name, kind in arguments if kind == "bool"]  # ruff accepts them as keyword-only
        signature = ", ".join(f"{'*, ' if [name] == switches[:1] else ''}{name}: {kind}" for name, kind in arguments)
        given = ", ".join(f"{name}={name}" if name in switches else name for name, _ in arguments)
        begin, wait = ("async ", "await ") if is_async else ("", "")
        head = f'{begin}def {self.operation.id}({signature}) -> {self._result()}:\n    """{self.summary}."""\n'
        give = "" if self._result() == "None" else "return "
        call = f"{give}{wait}{self.service}.{self.operation.id}({given})"
        return f"{head}    {call}\n", f"{head}    raise NotImplementedError\n"

    def test_class(self, name: str) -> str:
        """Return the test class: that the operation succeeds."""
        operation = self.operation
        return (
            f"class {name}:\n"
            f"    def test_{operation.id}_returns_{operation.success.status}(self, acme: Tenant) -> None:\n"
            f"        answer = {self._caller()}.{self._call()}\n"
            f"        assert answer.status_code == {operation.success.status}, answer.text\n"
        )

    @property
    def _raw(self) -> Node:
        raw: Node = self.contract.document["paths"][self.operation.path][self.operation.method.lower()]
        return raw

    def _arguments(self) -> Iterator[tuple[str, str]]:
        """Yield name and type of each argument; filters and names that Python keeps come as one.

        Filters are the optional parameters of a list, and of an operation that has many parameters.
        """
        filters = False
        parameters = [parameter for parameter in self.operation.parameters if parameter.location != "header"]
        is_filtered = self._is_list or len(parameters) > _MAX_PARAMETERS
        for parameter in parameters:
            required = parameter.required or "default" in self.contract.resolve(parameter.schema)
            name = snake_case(parameter.name)
            if iskeyword(name) or (is_filtered and not required and parameter.name != "cursor"):
                filters = True
            else:
                yield name, self._type(parameter.schema) + ("" if required else " | None")
        if self.operation.body:
            yield "body", "dict[str, Any]"
        if filters:
            yield "**filters", "Any"

    def _type(self, schema: Node) -> str:
        schema = self.contract.resolve(schema)
        if schema.get("format") == "date-time":
            return "datetime"
        if schema.get("type") == "array":
            return f"list[{self._type(schema['items'])}]"
        return _TYPES.get(schema.get("type", ""), "Any")

    def _result(self) -> str:
        if self.operation.success.status == 204:
            return "None"
        return "Page" if self._is_list else "object"

    @property
    def _is_list(self) -> bool:
        return "nextCursor" in self.contract.resolve(self.operation.success.schema or {}).get("properties", {})

    def _caller(self) -> str:
        if self.operation.any_scope:
            return f"acme.key({self.operation.any_scope[0]!r})"
        return f"acme.person({self.operation.least_role!r})" if self.operation.least_role else "acme.anybody"

    def _call(self) -> str:
        """Return a call of the operation with the contract's own examples: `post('/v1/freezes', {…})`."""
        path, given = self.operation.path, list[str]()
        item = self.contract.document["paths"][path]
        for raw in (*item.get("parameters", ()), *self._raw.get("parameters", ())):
            parameter = self.contract.resolve(raw)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(str(parameter["example"]), safe=""))
            elif parameter["in"] == "query" and parameter.get("required"):
                given.append(f"{parameter['name']}={parameter['example']!r}")
        body = [repr(self._body_example())] if self.operation.body else []
        return f"{self.operation.method.lower()}({', '.join([repr(path), *body, *given])})"

    def _body_example(self) -> Any:
        contents = self.contract.resolve(self._raw["requestBody"])["content"]
        content = contents.get("application/json") or next(iter(contents.values()))
        if "example" in content:
            return content["example"]
        return self.contract.resolve(next(iter(content["examples"].values())))["value"]

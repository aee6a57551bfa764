"""What the `stripe` package says of every method of the API: the class of its parameters, and of its answer.

The package is generated from Stripe's OpenAPI description. Its services are read as source, since only that has the
paths of their methods. Closed enumerations are typed `Literal[...] | str` there; the `str` is left out here.
"""

import ast
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

import stripe
import typing_extensions
from stripe._request_options import RequestOptions

_PACKAGE = Path(stripe.__file__).parent
_KEY_MARKS = (typing_extensions.NotRequired, typing_extensions.Required)


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of the API, with the annotations of its source."""

    module: str
    params: str | None
    answer: str

    def faults_of_answer(self, body: Any) -> list[str]:
        """Return what is wrong with an answer, a line each; it has only the fields that somebody reads."""
        return list(_check(_evaluated(self.answer, _scope(self.module)), body, self.answer, whole=False))

    def faults_of_params(self, params: Any) -> list[str]:
        """Return what is wrong with parameters: unknown to this version, missing, of another type or enumeration."""
        if self.params is None:
            return [f"{name}: the method has no parameters" for name in params]
        return list(_check(_evaluated(self.params, _scope(self.module)), params, self.params, whole=True))


@cache
def operation(verb: str, path: str) -> Operation:
    """Return the method of a path with ids as `{id}`. Raise KeyError if the package knows none."""
    pattern = re.compile('"' + re.escape(path).replace(r"\{id\}", r"\{\w+\}") + '"')
    for module, text in _services().items():
        if pattern.search(text):
            found = _operations_of(module)
            if (verb, path) in found:
                return found[verb, path]
    raise KeyError(f"{verb} {path}")


@cache
def _services() -> dict[str, str]:
    """Return the source of each service by the name of its module."""
    files = {file.relative_to(_PACKAGE).with_suffix(""): file for file in sorted(_PACKAGE.rglob("_*_service.py"))}
    return {".".join(["stripe", *name.parts]): file.read_text() for name, file in files.items()}


@cache
def _operations_of(module: str) -> dict[tuple[str, str], Operation]:
    """Return the methods of a service by verb and path."""
    found = {}
    for method in ast.walk(ast.parse(_services()[module])):
        if not isinstance(method, ast.FunctionDef) or method.returns is None:
            continue
        for call in ast.walk(method):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "self._request":
                verb, path = (ast.literal_eval(_text(each)) for each in call.args[:2])
                found[verb.upper(), re.sub(r"\{\w+\}", "{id}", path)] = _operation(module, method)
    return found


def _text(node: ast.expr) -> ast.expr:
    """Return the template of `"…".format(…)`, or the text itself."""
    return node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node


def _operation(module: str, method: ast.FunctionDef) -> Operation:
    assert method.returns is not None
    arguments = {each.arg: each.annotation for each in [*method.args.posonlyargs, *method.args.args]}
    params = arguments.get("params")
    if isinstance(params, ast.Subscript):  # Optional[…]
        params = params.slice
    return Operation(module, ast.literal_eval(params) if params else None, ast.literal_eval(method.returns))


@cache
def _scope(module_name: str) -> dict[str, Any]:
    """Return the names that annotations of a module use, with those that it imports for type checkers alone."""
    module = importlib.import_module(module_name)
    scope = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imports: list[ast.stmt] = [each for each in node.body if isinstance(each, ast.Import | ast.ImportFrom)]
            exec(compile(ast.Module(imports, []), module_name, "exec"), scope)
    return scope


@cache
def fields_of(kind: type) -> dict[str, Any]:
    """Return the fields of a class with their types."""
    fields = {}
    options = set(RequestOptions.__annotations__) if typing_extensions.is_typeddict(kind) else set()
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("stripe.") or base.__name__ == "StripeObject":
            continue
        scope: dict[str, Any] = dict(_scope(base.__module__))
        at: Any = importlib.import_module(base.__module__)
        for part in base.__qualname__.split("."):  # nested classes are named without their owners
            at = getattr(at, part)
            scope |= {name: value for name, value in vars(at).items() if inspect.isclass(value)}
        for name, annotation in inspect.get_annotations(base).items():
            if not name.startswith("_") and name not in {"OBJECT_NAME"} | options:
                fields[name] = _evaluated(annotation, scope)
    return fields


def _evaluated(annotation: Any, scope: dict[str, Any]) -> Any:
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _evaluated(eval(annotation, scope), scope)
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return annotation
    inner = tuple(_evaluated(each, scope) for each in get_args(annotation))
    origin = Union if origin is types.UnionType else origin
    return origin[inner if len(inner) > 1 else inner[0]]


def _check(kind: Any, value: Any, at: str, *, whole: bool) -> Iterator[str]:
    """Yield what is wrong with a value, and, if it has to be whole, which fields are missing."""
    origin, args = get_origin(kind), get_args(kind)
    name = getattr(origin, "__name__", "")
    if origin is Union:
        yield from _check_union(args, value, at, whole=whole)
    elif origin in _KEY_MARKS:
        yield from _check(args[0], value, at, whole=whole)
    elif origin is list or name == "ListObject":
        yield from _check_list(args[0], value, at, whole=whole, is_page=name == "ListObject")
    elif inspect.isclass(kind) and kind.__module__.startswith("stripe.") and origin is None:
        yield from _check_object(kind, value, at, whole=whole)
    elif not _is_plain(kind, value):
        wanted = f"none of {get_args(kind)}" if origin is Literal else f"no {getattr(kind, '__name__', kind)}"
        yield f"{at}: {value!r} is {wanted}"


def _check_list(kind: Any, value: Any, at: str, *, whole: bool, is_page: bool) -> Iterator[str]:
    if is_page:
        if not isinstance(value, dict) or not {"object", "data", "has_more", "url"} <= value.keys():
            yield f"{at}: is no page of a list"
            return
        value = value["data"]
    if not isinstance(value, list):
        yield f"{at}: is no list"
        return
    for index, each in enumerate(value):
        yield from _check(kind, each, f"{at}[{index}]", whole=whole)


def _is_plain(kind: Any, value: Any) -> bool:
    """True if a value is of a kind that has no fields of its own."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is not None:  # Dict[…] and UntypedStripeObject[…]
        return isinstance(value, dict)
    if kind in {int, float}:
        return isinstance(value, int | float) and not isinstance(value, bool)
    accepted: dict[Any, Any] = {Any: object, bool: bool, Decimal: (str, Decimal), type(None): type(None)}
    return isinstance(value, accepted.get(kind, str))


def _check_union(kinds: tuple[Any, ...], value: Any, at: str, *, whole: bool) -> Iterator[str]:
    if isinstance(value, str) and any(get_origin(kind) is Literal for kind in kinds):
        words = tuple(kind for kind in kinds if kind is not str)  # the enumeration is meant
        is_word_only = not any(get_origin(kind) is Literal and get_args(kind) == ("",) for kind in kinds)
        others = any(get_origin(kind) is Literal and get_args(kind) != ("",) for kind in kinds)
        kinds = words if is_word_only or others else kinds
    if isinstance(value, dict):  # expanded
        kinds = tuple(kind for kind in kinds if kind is not str and kind is not type(None))
    found = [list(_check(kind, value, at, whole=whole)) for kind in kinds]
    if all(found):
        yield from min(found, key=len)


def _check_object(kind: type, value: Any, at: str, *, whole: bool) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: {value!r} is no object"
        return
    if not whole and value.get("deleted") is True:
        return
    fields = fields_of(kind)
    for name in sorted(value.keys() - fields.keys()):
        yield f"{at}.{name}: not in this version of the API"
    for name, expected in fields.items():
        if name in value:
            yield from _check(expected, value[name], f"{at}.{name}", whole=whole)
        elif whole and get_origin(expected) is not typing_extensions.NotRequired:
            yield f"{at}.{name}: missing"

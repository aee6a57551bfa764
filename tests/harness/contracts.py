"""What is made of a contract and depends on no setting, done once per contract and process instead of per application.

Connexion's reading and validation is nine tenths of what it takes to build an application, and the compilation of
schemas half of the rest; tests build about a hundred of them.
"""

from typing import Any

import orjson

from app.edge import connexion_adapter
from schemas.contract import Node
from schemas.dialect import Validators

Specification = vars(connexion_adapter)["connexion"].spec.Specification  # importing Connexion warns, except there
_read = vars(Specification)["from_dict"].__func__
_specifications: dict[bytes, Any] = {}
_compile = Validators.compile
_compiled: dict[tuple[int, bytes, str | None], tuple[Any, Any]] = {}
"""Validators, with the document that their references are resolved in, which so keeps its address."""


def _read_once(specification_class: type, /, document: dict[str, Any], **options: Any) -> Any:
    content = orjson.dumps([document, options])
    if content not in _specifications:
        _specifications[content] = _read(specification_class, document, **options)
    return _specifications[content]


def _compile_once(validators: Validators, schema: Node, *, mask: str | None = None) -> Any:
    document = vars(validators)["_document"]
    key = id(document), orjson.dumps(schema), mask
    if key not in _compiled:
        _compiled[key] = _compile(validators, schema, mask=mask), document
    return _compiled[key][0]


def read_contracts_once() -> None:
    """Make Connexion take a contract that it has read before as it was then, and compile each schema of one once.

    Applications change neither.
    """
    Specification.from_dict = classmethod(_read_once)
    Validators.compile = _compile_once  # type: ignore[assignment]

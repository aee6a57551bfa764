"""Connexion's reading and validation of a contract, done once per contract and process instead of once per application.

It is nine tenths of what it takes to build an application, and tests build about a hundred of them.
"""

from typing import Any

import orjson

from app.edge import connexion_adapter

Specification = vars(connexion_adapter)["connexion"].spec.Specification  # importing Connexion warns, except there
_read = vars(Specification)["from_dict"].__func__
_specifications: dict[bytes, Any] = {}


def _read_once(specification_class: type, /, document: dict[str, Any], **options: Any) -> Any:
    content = orjson.dumps([document, options])
    if content not in _specifications:
        _specifications[content] = _read(specification_class, document, **options)
    return _specifications[content]


def read_contracts_once() -> None:
    """Make Connexion take a contract that it has read before as it was then; applications do not change it."""
    Specification.from_dict = classmethod(_read_once)

"""Connexion's validation of a contract, done once per contract and process instead of once per application.

It is two thirds of what it takes to build an application, and tests build about a hundred of them.
"""

from typing import Any

import orjson

from app.edge import connexion_adapter

Specification = vars(connexion_adapter)["connexion"].spec.Specification  # importing Connexion warns, except there
_validate = vars(Specification)["_validate_spec"].__func__
_valid: set[bytes] = set()


def _validate_once(specification_class: type, document: dict[str, Any]) -> None:
    content = orjson.dumps(document)
    if content not in _valid:
        _validate(specification_class, document)
        _valid.add(content)


def validate_contracts_once() -> None:
    """Make Connexion accept without validation a contract that it has found valid before."""
    Specification._validate_spec = classmethod(_validate_once)

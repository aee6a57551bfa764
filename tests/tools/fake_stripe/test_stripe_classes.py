"""The simulation is held against the classes of the `stripe` package, and the comparison finds what it should."""

from typing import Any

import pytest

from tests.tools.fake_stripe.stripe_classes import operation
from tools.fake_stripe.api import ROUTES
from tools.fake_stripe.routes import Route

PLAIN: dict[type, Any] = {str: "text", int: 1, bool: True}


def samples(accepted: Any) -> list[Any]:
    """Return values that show everything that is accepted."""
    if isinstance(accepted, list):
        return [[sample] for sample in samples(accepted[0])]
    if isinstance(accepted, dict):
        found = {name.rstrip("!").replace("*", "eur"): samples(each) for name, each in accepted.items()}
        longest = max(map(len, found.values()), default=1)
        return [{name: each[min(row, len(each) - 1)] for name, each in found.items()} for row in range(longest)]
    return [PLAIN[accepted]] if isinstance(accepted, type) else sorted(accepted)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.template}")
def test_every_accepted_parameter_is_known_to_stripe(route: Route) -> None:
    known = operation(route.method, route.template)
    assert not {fault for sample in samples(route.accepted) for fault in known.faults_of_params(sample)}


CUSTOMER = operation("GET", "/v1/customers/{id}")
CREATE = operation("POST", "/v1/checkout/sessions")
UPDATE = operation("POST", "/v1/subscriptions/{id}")
LIST = operation("GET", "/v1/prices")
SESSION = {"mode": "subscription", "success_url": "https://example.com"}


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"ui_mode": "hosted"}, "is none of"),  # until 2026-03; hosted_page since
        ({"payment_method_types": ["card"]}, "not in this version of the API"),
        ({"line_items": {"price": "price_1"}}, "is no list"),
        ({"expires_at": "soon"}, "is no int"),
        ({"automatic_tax": {}}, "enabled: missing"),
        ({"subscription_data": {"trial_end": True}}, "is no int"),
    ],
)
def test_wrong_parameters_are_found(params: dict[str, Any], fault: str) -> None:
    assert not CREATE.faults_of_params(SESSION)
    [found] = CREATE.faults_of_params(SESSION | params)
    assert fault in found


def test_empty_string_is_accepted_where_it_clears_and_nowhere_else() -> None:
    assert not UPDATE.faults_of_params({"cancel_at": ""})
    assert UPDATE.faults_of_params({"items": ""})


def test_unknown_and_mistyped_fields_of_answers_are_found() -> None:
    faults = CUSTOMER.faults_of_answer({"id": 1, "object": "customer", "plan": "team"})
    assert faults == ["Customer.plan: not in this version of the API", "Customer.id: 1 is no str"]


def test_list_without_its_frame_is_found() -> None:
    assert LIST.faults_of_answer({"data": []}) == ["ListObject[Price]: is no page of a list"]


def test_unknown_method_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        operation("GET", "/v1/nothing")

"""The simulation is held against the classes of the `stripe` package, and the comparison finds what it should."""

from typing import Any

import pytest

from tests.tools.fake_stripe.conftest import LEFT_OUT, UNDOCUMENTED
from tests.tools.fake_stripe.stripe_classes import operation
from tools.fake_stripe.api import ROUTES
from tools.fake_stripe.protocol import parameters
from tools.fake_stripe.protocol.parameters import Parameter
from tools.fake_stripe.protocol.routing import Route

DOCUMENTED = [route for route in ROUTES if not route.template.startswith(UNDOCUMENTED)]
PLAIN: dict[type, list[Any]] = {
    parameters.Text: ["text"],
    parameters.Address: ["https://example.com"],
    parameters.Whole: [1],
    parameters.Flag: [True],
    parameters.Metadata: [{"key": "value"}],
    parameters.Moment: [1, {"gt": 1, "gte": 1, "lt": 1, "lte": 1}],
}


def samples(parameter: Parameter) -> list[Any]:
    """Return values that show everything that a parameter accepts."""
    found: list[Any]
    match parameter:
        case parameters.Choice(words=words):
            found = list(words)
        case parameters.Clearable(other=other):
            found = ["", *samples(other)]
        case parameters.WordOr(word=word, other=other):
            found = [word, *samples(other)]
        case parameters.Many(each=each):
            found = [[sample] for sample in samples(each)]
        case parameters.Table(each=each):
            found = [{"eur": sample} for sample in samples(each)]
        case parameters.Fields(known=known):
            longest = max((len(samples(each)) for each in known.values()), default=1)
            found = [{name: _nth(samples(each), row) for name, each in known.items()} for row in range(longest)]
        case _:
            found = PLAIN[type(parameter)]
    return found


def _nth(values: list[Any], position: int) -> Any:
    return values[min(position, len(values) - 1)]


@pytest.mark.parametrize("route", DOCUMENTED, ids=lambda route: f"{route.method} {route.template}")
def test_every_accepted_parameter_is_known_to_stripe(route: Route) -> None:
    known = operation(route.method, route.template)
    faults = {fault for sample in samples(route.accepted) for fault in known.faults_of_params(sample)}
    assert not faults


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


def test_unknown_missing_and_mistyped_fields_of_answers_are_found() -> None:
    faults = CUSTOMER.faults_of_answer({"id": 1, "object": "customer", "plan": "team"}, LEFT_OUT)
    assert "Customer.id: 1 is no str" in faults
    assert "Customer.plan: not in this version of the API" in faults
    assert "Customer.created: missing" in faults
    assert not [fault for fault in faults if "sources" in fault]


def test_list_without_its_frame_is_found() -> None:
    assert LIST.faults_of_answer({"data": []}, LEFT_OUT) == ["ListObject[Price]: is no page of a list"]


def test_unknown_method_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        operation("GET", "/v1/nothing")

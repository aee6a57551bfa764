"""The pages that notifications link to."""

import pytest

from rules.notifications.links import page_of, page_of_several


@pytest.mark.parametrize(
    ("kind", "path", "action"),
    [
        ("freeze", "/freezes/x_1", "Open the freeze"),
        ("branch", "/branches/x_1", "Open the branch"),
        ("schedule", "/schedules/x_1", "Open the schedule"),
        ("exception", "/pulls?ref=acme%2Fshop%23123#exceptions", "Open the pull request's exception"),
        ("organization", "/", "Open the overview"),
    ],
)
def test_page_is_that_of_the_object(kind: str, path: str, action: str) -> None:
    page = page_of("exception.granted", {"type": kind, "id": "x_1", "name": "acme/shop#123"})
    assert (page.path, page.action) == (path, action)


def test_page_of_a_request_is_where_it_is_decided() -> None:
    page = page_of("exception.requested", {"type": "exception", "id": "exc_1", "name": "acme/shop#123"})
    assert (page.path, page.action) == ("/exceptions#exc_1", "Decide on the request")


@pytest.mark.parametrize(
    ("types", "path"),
    [
        (["freeze", "freeze"], "/freezes"),
        (["branch"], "/branches"),
        (["schedule"], "/calendar"),
        (["exception"], "/exceptions"),
        (["freeze", "exception"], "/"),
        (["organization"], "/"),
    ],
)
def test_page_of_several_objects_is_their_list(types: list[str], path: str) -> None:
    assert page_of_several(types).path == path

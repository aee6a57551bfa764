"""Routing on the raw path."""

import pytest

from app.edge.router import Router


@pytest.fixture
def router() -> Router[str]:
    router: Router[str] = Router()
    for method, path in (
        ("GET", "/v1/repos"),
        ("POST", "/v1/repos/sync"),
        ("GET", "/v1/repos/{repoId}"),
        ("PATCH", "/v1/repos/{repoId}"),
        ("GET", "/v1/repos/{repoId}/pulls"),
        ("GET", "/v1/{anything}/sync/deep"),
    ):
        router.add(path, method, f"{method} {path}")
    return router


@pytest.mark.parametrize(
    ("path", "methods", "values"),
    [
        ("/v1/repos", {"GET"}, []),
        ("/v1/repos/acme%2Fweb", {"GET", "PATCH"}, ["acme/web"]),
        ("/v1/repos/acme%2fweb/pulls", {"GET"}, ["acme/web"]),
        ("/v1/repos/sync", {"POST"}, []),
        ("/v1/%72epos/sync", {"POST"}, []),
        ("/v1/repos/sync/deep", {"GET"}, ["repos"]),
        ("/v1/repos/sync/pulls", {"GET"}, ["sync"]),
        ("/v1/repos/%C3%A9", {"GET", "PATCH"}, ["é"]),
        ("/v1/repos/%2E%2E", {"GET", "PATCH"}, [".."]),
        ("/v1/repos/a%25b", {"GET", "PATCH"}, ["a%b"]),
    ],
)
def test_router_finds_methods_and_values_of_a_path(
    router: Router[str], path: str, methods: set[str], values: list[str]
) -> None:
    found = router.find(path.encode())
    assert found is not None
    assert (set(found.methods), list(found.values)) == (methods, values)


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/v1",
        b"/v1/repos/",
        b"/v1//repos",
        b"/v1/repos/a/b",
        b"/v1/repos/acme%2Fweb/pulls/1",
        b"/v1/repos/%ff",
        b"/v1/repos/%00",
        b"/v1/repos/\xff",
    ],
)
def test_router_finds_nothing_for_other_paths(router: Router[str], path: bytes) -> None:
    assert router.find(path) is None


def test_allow_header_names_every_method_and_head_with_get(router: Router[str]) -> None:
    found = router.find(b"/v1/repos/x")
    assert found is not None
    assert found.allow() == "GET, HEAD, PATCH"
    assert found.target("HEAD") == found.target("GET")
    assert found.target("DELETE") is None


def test_duplicate_or_partial_segment_route_is_rejected(router: Router[str]) -> None:
    with pytest.raises(ValueError, match="twice"):
        router.add("/v1/repos/{other}", "GET", "again")
    with pytest.raises(ValueError, match="whole segment"):
        router.add("/v1/a{b}", "GET", "half")

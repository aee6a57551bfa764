"""PKCE, resource indicators, scopes, and redirect addresses of OAuth requests."""

import pytest

from rules.access.oauth import is_same_resource, requested_scopes, verifier_matches, with_reads
from rules.access.redirect_uris import (
    form_action_source,
    is_loopback,
    is_redirect_uri,
    redirect_matches,
    with_parameters,
)

# RFC 7636, appendix B
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
SUPPORTED = ("freeze:read", "freeze:write", "repo:read")


class TestVerifierMatches:
    def test_verifier_matches_the_challenge_of_the_rfc(self) -> None:
        assert verifier_matches(VERIFIER, CHALLENGE)

    @pytest.mark.parametrize("verifier", ["", "x" * 43, CHALLENGE, VERIFIER[:42], VERIFIER + "x" * 100, VERIFIER + "é"])
    def test_verifier_does_not_match_when_it_is_another_or_malformed(self, verifier: str) -> None:
        assert not verifier_matches(verifier, CHALLENGE)

    def test_plain_challenge_does_not_match_itself(self) -> None:
        assert not verifier_matches(VERIFIER, VERIFIER)


class TestIsSameResource:
    @pytest.mark.parametrize(
        "given", ["https://api.example/mcp", "https://API.example/mcp/", "HTTPS://api.example/mcp"]
    )
    def test_resource_is_the_same_whatever_its_case_and_final_slash(self, given: str) -> None:
        assert is_same_resource(given, "https://api.example/mcp")

    @pytest.mark.parametrize(
        "given",
        [
            "https://api.example/MCP",
            "https://api.example",
            "http://api.example/mcp",
            "https://api.example:8443/mcp",
            "https://api.example/mcp?x=1",
            "https://api.example/mcp?",
            "https://api.example/mcp#",
            "https://api.example.evil.example/mcp",
            "https://api.example@evil.example/mcp",
            "/mcp",
            "",
        ],
    )
    def test_resource_is_another_when_anything_else_differs(self, given: str) -> None:
        assert not is_same_resource(given, "https://api.example/mcp")


class TestScopes:
    @pytest.mark.parametrize(
        ("scope", "found"),
        [
            (None, set(SUPPORTED)),
            ("", set(SUPPORTED)),
            ("offline_access", set(SUPPORTED)),
            ("freeze:read", {"freeze:read"}),
            ("freeze:read unknown offline_access", {"freeze:read"}),
            ("freeze:write", {"freeze:read", "freeze:write"}),
            ("unknown", set()),
        ],
    )
    def test_requested_scopes_drop_unknown_ones_and_add_reads(self, scope: str | None, found: set[str]) -> None:
        assert requested_scopes(scope, SUPPORTED) == found

    def test_write_brings_its_read_only_where_there_is_one(self) -> None:
        assert with_reads({"audit:write", "freeze:write"}, SUPPORTED) == {"audit:write", "freeze:write", "freeze:read"}


class TestRedirectUris:
    @pytest.mark.parametrize(
        "uri",
        [
            "https://client.example/callback",
            "https://client.example:8443/callback?x=1",
            "http://localhost:53076/callback",
            "http://127.0.0.1/callback",
            "http://[::1]:1/callback",
        ],
    )
    def test_redirect_uri_is_https_or_on_the_loopback(self, uri: str) -> None:
        assert is_redirect_uri(uri)
        assert is_loopback(uri) == uri.startswith("http:")

    @pytest.mark.parametrize(
        "uri",
        [
            "",
            "/callback",
            "//evil.example/callback",
            "http://client.example/callback",
            "http://localhost.evil.example/callback",
            "http://localhost@evil.example/callback",
            "https://user:word@client.example/callback",
            "https://client.example/callback#fragment",
            "https://client.example\\@evil.example/",
            "https://client.example/call back",
            "https://client.example/\r\nX: y",
            "https://client.example:0/",
            "https://client.example:99999/",
            "https://client.example;form-action *,/",
            "https://cliént.example/",
            "javascript:alert(1)",
            "com.example.app:/callback",
            "https:client.example",
            "https:///callback",
            "http://[::1/callback",
        ],
    )
    def test_redirect_uri_is_refused_when_it_leads_elsewhere_or_is_ambiguous(self, uri: str) -> None:
        assert not is_redirect_uri(uri)
        assert not redirect_matches(uri, uri)

    @pytest.mark.parametrize(
        ("registered", "given"),
        [
            ("http://localhost/callback", "http://localhost:53076/callback"),
            ("http://localhost:3334/callback", "http://localhost/callback"),
            ("http://127.0.0.1:1/callback?x=1", "http://127.0.0.1:2/callback?x=1"),
            ("http://[::1]/callback", "http://[::1]:53076/callback"),
            ("https://client.example/callback", "https://client.example/callback"),
        ],
    )
    def test_redirect_matches_on_any_port_of_the_loopback(self, registered: str, given: str) -> None:
        assert redirect_matches(registered, given)

    @pytest.mark.parametrize(
        ("registered", "given"),
        [
            ("https://client.example/callback", "https://client.example:8443/callback"),
            ("https://client.example/callback", "https://client.example/callback/"),
            ("https://client.example/callback", "https://client.example/callback?x=1"),
            ("https://client.example/callback", "https://CLIENT.example/callback"),
            ("http://localhost/callback", "http://127.0.0.1/callback"),
            ("http://localhost/callback", "https://localhost/callback"),
            ("http://localhost/callback", "http://localhost:53076/other"),
            ("http://localhost/callback", "http://localhost:53076/callback?x=1"),
            ("http://localhost/callback", "http://localhost:53076@evil.example/callback"),
            ("http://localhost/callback", "http://localhost:53076.evil.example/callback"),
            ("http://localhost/callback", "http://localhost:53076//callback"),
            ("http://localhost/callback", "http://localhost:53076/%63allback"),
        ],
    )
    def test_redirect_does_not_match_when_anything_but_the_port_differs(self, registered: str, given: str) -> None:
        assert not redirect_matches(registered, given)

    def test_response_is_added_to_the_query_of_a_redirect(self) -> None:
        assert with_parameters("https://a.example/cb", {"code": "x y"}) == "https://a.example/cb?code=x+y"
        assert (
            with_parameters("https://a.example/cb?k=1", {"state": "&#é"}) == "https://a.example/cb?k=1&state=%26%23%E9"
        )

    @pytest.mark.parametrize(
        ("uri", "source"),
        [
            ("https://client.example:8443/cb?x=1", "https://client.example:8443"),
            ("http://localhost:53076/cb", "http://localhost:53076"),
            ("http://[::1]:53076/cb", "http:"),
        ],
    )
    def test_form_action_source_is_the_origin_of_the_redirect(self, uri: str, source: str) -> None:
        assert form_action_source(uri) == source

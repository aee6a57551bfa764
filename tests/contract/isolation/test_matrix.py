"""I8: no row of another organisation is ever read or written.

The matrix is made from the contract: whatever carries an id, in path, query or body of any operation, is asked with an
id of another organisation and with one that does not exist. Both responses are alike, and nothing of the other changes.
"""

import re
from typing import Any

import httpx
import psycopg
import pytest

from rules.ids import new_id
from tests.contract.isolation.conftest import Tenants
from tests.contract.isolation.object_references import CONTRACT, CREDENTIALLED, ObjectReference, references, send
from tests.contract.isolation.table_owners import rows_of
from tests.harness.tenant_fixtures import TenantFixture

FIND_NOTHING = {"list_audit_entries", "export_audit"}
"""Lists that are filtered by the id of something that may be deleted: an unknown id is no error, and finds no row."""


def shown(response: httpx.Response, value: str) -> tuple[int, str]:
    """Return status and answer, without what may differ between two requests: their ids, and what they name."""
    text = re.sub(r"req_[0-9a-v]{26}", "req", response.text).replace(value, "…")
    return response.status_code, re.sub("globex/[a-z-]+", "…", text)


def code_of(response: httpx.Response) -> str:
    body = response.json()
    found: str = body["code"] if isinstance(body["error"], str) else body["error"]["code"]
    return found


def holds_nothing(response: httpx.Response) -> bool:
    """True if a list, or a file of CSV with its header, has no row."""
    if response.headers["Content-Type"].startswith("text/csv"):
        return response.text.count("\r\n") == 1
    return not response.json()["data"]


REFERENCES = list(references())


def code_of_nothing(reference: ObjectReference) -> str | None:
    """Return the code that the contract has for an id in the path that names nothing; None for other places."""
    item = CONTRACT.document["paths"][reference.operation.path]
    for raw in (*item.get("parameters", ()), *item[reference.operation.method.lower()].get("parameters", ())):
        parameter = CONTRACT.resolve(raw)
        if (parameter["in"], parameter["name"]) == (reference.where, reference.name):
            found: str | None = parameter.get("x-not-found")
            return found
    return None


@pytest.fixture(scope="module")
def their_rows(tenants_of_module: Tenants, shared_database: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Return the rows of the other organisation with which every test begins."""
    return rows_of(shared_database, tenants_of_module.theirs.organization.id)


class TestIsolationMatrix:
    def test_isolation_matrix_has_every_operation_with_an_id(self) -> None:
        asked = {reference.operation.id for reference in REFERENCES}
        named = {one.id for one in CREDENTIALLED if "{" in one.path}
        scoped = {"create_freeze", "preview_scope", "verify_enforcement", "setup_enforcement", "seed_check"}
        assert named | scoped | {"lift_freezes", "enable_repositories"} <= asked
        scopes = {
            (reference.operation.id, reference.steps) for reference in REFERENCES if reference.operation.id in scoped
        }
        forms = {("scope", "repositories", 0), ("scope", "branchId"), ("scope", "repository")}
        assert scopes == {(operation, steps) for operation in scoped for steps in forms}

    @pytest.mark.parametrize("reference", REFERENCES, ids=str)
    def test_id_is_found_by_its_own_organization_only(
        self,
        http: httpx.Client,
        sql: psycopg.Connection[Any],
        ours: TenantFixture,
        theirs: TenantFixture,
        their_rows: dict[str, list[str]],
        reference: ObjectReference,
    ) -> None:
        named = code_of_nothing(reference)
        for foreign, unknown in theirs.names(reference.kind):
            answer = send(http, ours, reference, foreign)
            if reference.operation.id in FIND_NOTHING:
                assert answer.status_code == 200, f"{reference}: {answer.text}"
                assert holds_nothing(answer), f"{reference}: {answer.text}"
            else:
                assert 400 <= answer.status_code < 500, f"{reference}: {answer.text}"
                code = code_of(answer)
                assert code == named or (not named and (code.endswith("_not_found") or code == "invalid_parameter"))
            assert shown(answer, foreign) == shown(send(http, ours, reference, unknown), unknown)
        assert rows_of(sql, theirs.organization.id) == their_rows
        for nonsense in ("nonsense", new_id("xyz")) if named else ():
            answer = send(http, ours, reference, nonsense)
            assert (answer.status_code, code_of(answer)) == (404, named), answer.text
        for own, _unknown in ours.names(reference.kind):
            answer = send(http, ours, reference, own)
            code = code_of(answer) if answer.status_code >= 400 else ""
            assert not code.endswith("_not_found"), f"{reference}: {answer.text}"
            assert code != "invalid_parameter", f"{reference}: {answer.text}"

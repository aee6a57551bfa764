"""Reading an export as rows."""

import csv
import io

import httpx

PATH = "/v1/audit/export"


def rows_of(response: httpx.Response) -> list[dict[str, str]]:
    assert response.status_code == 200, response.text
    return list(csv.DictReader(io.StringIO(response.text, newline="")))

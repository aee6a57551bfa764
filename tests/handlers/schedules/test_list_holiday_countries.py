"""The countries whose holidays can be imported."""

from tests.handlers.callers import Tenant
from tests.handlers.people import through_pages
from tests.handlers.schedules.import_requests import imported, of_country

PATH = "/v1/holidays/countries"


class TestListHolidayCountries:
    def test_list_holiday_countries_names_countries_and_subdivisions(self, acme: Tenant) -> None:
        found = {row["code"]: row for row in through_pages(acme.key("schedule:read"), PATH, limit=100)}
        assert len(found) > 200
        assert list(found) == sorted(found)
        assert found["GB"] == {
            "code": "GB",
            "name": "United Kingdom",
            "subdivisions": [
                {"code": "ENG", "name": "England"},
                {"code": "NIR", "name": "Northern Ireland"},
                {"code": "SCT", "name": "Scotland"},
                {"code": "WLS", "name": "Wales"},
            ],
        }
        assert found["GD"] == {"code": "GD", "name": "Grenada", "subdivisions": []}
        assert found["IM"]["name"] == "Isle of Man"
        assert "UK" not in found

    def test_listed_subdivision_can_be_imported(self, acme: Tenant) -> None:
        (first,) = acme.person("viewer").get(PATH, limit=1).json()["data"]
        part = first["subdivisions"][0]["code"]
        imported(acme.person("member"), of_country(first["code"], subdivision=part, dryRun=True))

"""Holidays of countries as windows."""

from dataclasses import replace
from datetime import date, time, timedelta

import holidays as package
import pytest

from integrations.calendars import holidays
from integrations.calendars.content import ImportedWindow
from rules.time.wall_clock import Window
from tests.integrations.calendars.vectors import LONDON, evening_before, spans

NEW_YORK = replace(LONDON, timezone="America/New_York")


def read(country: str, subdivision: str | None = None, years: tuple[int, ...] = (2027,)) -> dict[str, ImportedWindow]:
    reading = holidays.read(country, subdivision, years, replace(LONDON, timezone="UTC"))
    return {found.name: found for found in reading.found}


def test_holiday_of_several_years_is_one_window_with_its_dates() -> None:
    found = read("GB", "ENG", (2027, 2028))["Good Friday"]
    assert found.uid == "GB/ENG/public/Good Friday"
    assert found.recurrence == {"frequency": "dates", "start_date": "2027-03-26", "dates": ["2027-03-26", "2028-04-14"]}
    assert found.window == {"start_time": "00:00", "end_time": "00:00", "days": 1}


def test_substitute_day_belongs_to_its_holiday() -> None:
    assert read("US")["Christmas Day"].recurrence["dates"] == ["2027-12-24", "2027-12-25"]
    assert "Christmas Day (observed)" not in read("US")


def test_consecutive_holidays_are_one_window() -> None:
    found = read("CN")
    assert spans(found["Chinese New Year (Spring Festival) (3 days)"]) == [("2027-02-06T00:00", "2027-02-09T00:00")]
    assert spans(found["Chinese New Year (Spring Festival) (2 days)"]) == [("2027-02-09T00:00", "2027-02-11T00:00")]


def test_country_with_several_codes_is_one_place() -> None:
    assert read("UK", "SCT") == read("GBR", "SCT") == read("GB", "SCT")
    assert read("UK")["Christmas Day"].uid == "GB//public/Christmas Day"


def test_estimated_days_are_named_also_where_the_package_hides_them() -> None:
    found = read("SA", years=(2026, 2027))["Eid al-Fitr Holiday (4 days)"]
    assert found.uid == "SA//public/Eid al-Fitr Holiday"
    assert found.recurrence["dates"] == ["2026-03-19", "2027-03-09"]
    assert found.estimated == ["2027-03-09"]
    assert read("SA")["National Day Holiday"].estimated == []


def test_combined_holidays_have_the_estimated_days_of_all() -> None:
    options = replace(LONDON, timezone="UTC", day_before=True)
    (found,) = holidays.read("GH", None, (2027,), options, together=True).found[1:]
    assert found.name == "Public holidays (GH) (2 days)"
    assert found.recurrence["dates"][0] == "2027-03-08"
    assert found.estimated == ["2027-03-09"]


def test_every_country_has_a_name_and_named_subdivisions() -> None:
    found = {country.code: country for country in holidays.countries()}
    assert set(found) == {code for code in package.list_supported_countries() if len(code) == 2} - {"UK"}
    names = {part.code: part.name for part in found["FR"].subdivisions}
    assert (names["971"], found["CI"].name) == ("Guadeloupe", "Côte d'Ivoire")
    assert len({country.name for country in found.values()}) == len(found)
    for country in found.values():
        assert [part.code for part in country.subdivisions] == holidays.subdivisions_of(country.code)


def test_subdivision_has_its_own_holidays() -> None:
    assert "St. Andrew's Day" not in read("GB", "ENG")
    assert read("GB", "SCT")["Saint Andrew's Day"].uid == "GB/SCT/public/Saint Andrew's Day"


def test_observances_are_included_on_request_except_on_public_holidays() -> None:
    public = holidays.read("US", None, (2027,), NEW_YORK).found
    both = holidays.read("US", None, (2027,), NEW_YORK, observances=True).found
    added = [found for found in both if found not in public]
    assert "US//observance/Halloween" in {found.uid for found in added}
    assert all(found.uid.startswith("US//observance/") for found in added)
    days = {start[:10] for found in public for start, _end in spans(found)}
    assert days.isdisjoint({start[:10] for found in added for start, _end in spans(found)})


def test_combined_holidays_have_one_window_per_number_of_consecutive_days() -> None:
    reading = holidays.read("GB", "ENG", (2027,), replace(LONDON, timezone="UTC"), together=True)
    found = {item.name: item for item in reading.found}
    assert set(found) == {"Public holidays (GB-ENG)", "Public holidays (GB-ENG) (4 days)"}
    assert spans(found["Public holidays (GB-ENG) (4 days)"]) == [("2027-12-25T00:00", "2027-12-29T00:00")]
    assert found["Public holidays (GB-ENG)"].recurrence["dates"][:2] == ["2027-01-01", "2027-03-26"]


def test_country_without_observances_yields_only_public_holidays() -> None:
    assert holidays.read("GB", None, (2027,), NEW_YORK, observances=True) == holidays.read(
        "GB", None, (2027,), NEW_YORK
    )


def test_holiday_window_covers_the_day_before_and_chosen_times() -> None:
    options = replace(NEW_YORK, window=evening_before(), day_before=True)
    found = {item.name: item for item in holidays.read("US", None, (2027,), options).found}["Thanksgiving Day"]
    assert spans(found) == [("2027-11-24T22:00", "2027-11-26T13:00")]


def test_holiday_longer_than_the_longest_window_is_left_out() -> None:
    options = replace(LONDON, window=Window(time(17), time(8), 364))
    reading = holidays.read("GB", "ENG", (2027,), options, together=True)
    assert [found.window["days"] for found in reading.found] == [364]
    (skipped,) = reading.skipped
    assert (skipped.uid, skipped.code) == ("GB/ENG/public/Public holidays (GB-ENG)", "too_long")
    assert f"{skipped.name} {skipped.message}" == (
        "Public holidays (GB-ENG) (4 days) takes 367 days; a window can take at most 366"
    )


def test_holiday_before_the_first_date_of_schedules_is_left_out() -> None:
    reading = holidays.read("GB", "ENG", (2000, 2027), replace(LONDON, day_before=True))
    found = {item.name: item for item in reading.found}["New Year's Day"]
    assert found.recurrence["dates"] == ["2000-01-02", "2026-12-31"]


def test_past_holiday_is_marked() -> None:
    found = read("GB", "ENG", (2026,))
    assert found["Good Friday"].past
    assert not found["Christmas Day"].past


@pytest.mark.parametrize(
    ("country", "subdivision", "field"),
    [("XX", None, "country"), ("usa", None, "country"), ("US", "ZZ", "subdivision"), ("MC", "ZZ", "subdivision")],
)
def test_unknown_country_or_subdivision_is_reported_by_its_field(
    country: str, subdivision: str | None, field: str
) -> None:
    with pytest.raises(holidays.UnknownPlaceError) as refused:
        holidays.read(country, subdivision, (2027,), NEW_YORK)
    assert refused.value.field == field


def test_every_country_has_its_public_holidays_day_for_day() -> None:
    countries = [code for code in package.list_supported_countries() if len(code) == 2]
    assert len(countries) > 200
    for country in countries:
        covered = {day for found in read(country).values() for day in _days(found)}
        assert covered == set(package.country_holidays(country, years=[2027])), country


def _days(found: ImportedWindow) -> list[date]:
    whole = [
        (date.fromisoformat(start[:10]), date.fromisoformat(end[:10])) for start, end in spans(found, "2026-12-01")
    ]
    return [start + timedelta(days=day) for start, end in whole for day in range((end - start).days)]

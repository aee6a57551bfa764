"""What the page of a rule shows of the pull requests that it has let in."""

import re
from datetime import date, timedelta

import pytest

from models.exception_rules import ExceptionRule
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from web.dashboard.rule_uses import last_weeks, pulls_by_day, uses_by_day


def counted(text: str) -> dict[str, str]:
    """Return the numbers of the days in the grid, by their day and month."""
    cells = re.findall(r">(\d+)<span class=\"unseen\"> (\w+)(?:: (\d+))?</span>", text)
    return {f"{day} {month}": count for day, month, count in cells if count}


def use(pull: str, at: str) -> dict[str, object]:
    return {"pullRequest": {"id": pull}, "decidedAt": at}


@pytest.mark.parametrize(("timezone", "day"), [("UTC", 20), ("Pacific/Auckland", 21), ("America/New_York", 20)])
def test_day_is_that_of_the_zone(timezone: str, day: int) -> None:
    assert list(uses_by_day([use("pul_1", "2026-11-20T17:05:00Z")], timezone)) == [date(2026, 11, day)]


def test_pull_request_with_exceptions_from_two_freezes_counts_once() -> None:
    at = "2026-11-20T17:05:00Z"
    uses = uses_by_day(
        [use("pul_1", at), use("pul_2", at), use("pul_1", at), use("pul_1", "2026-11-19T09:00:00Z")], "UTC"
    )
    assert pulls_by_day(uses) == {date(2026, 11, 20): 2, date(2026, 11, 19): 1}
    assert [len(listed) for listed in uses.values()] == [3, 1]


@pytest.mark.parametrize("today", [date(2026, 11, 23), date(2026, 11, 29), date(2027, 1, 1)])
def test_weeks_begin_with_monday_and_end_with_the_present_one(today: date) -> None:
    weeks = last_weeks(today)
    days = [day for week in weeks for day in week]
    assert (len(weeks), {week[0].date.weekday() for week in weeks}) == (5, {0})
    assert [day.date for day in days if day.today] == [today]
    assert today in [day.date for day in weeks[-1]]
    assert all(day.here == (day.date <= today) for day in days)


def let_in(acme: Scene, rule: ExceptionRule, ages: list[int]) -> list[date]:
    """Have a rule let in a pull request for each age in days; return the days."""
    freeze = factories.freeze(acme.session, acme.organization, [acme.web])
    days = []
    for number, age in enumerate(ages, start=20):
        at = factories.now() - timedelta(days=age)
        pull = factories.pull_request(acme.session, acme.repositories[0], number)
        of_rule = {"rule_id": rule.id, "rule_name": rule.name, "decided_at": at, "created_at": at}
        factories.exception(acme.session, freeze, pull, acme.web, **of_rule)
        days.append(at.date())
    return days


def test_page_counts_and_lists_by_day(member: Enter, acme: Scene) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    two, _, one, old = let_in(acme, rule, [3, 3, 9, 60])
    page = member("viewer").open(f"/exceptions/rules/{rule.id}")

    assert counted(page.answer.text) == {f"{two:%-d %B}": "2", f"{one:%-d %B}": "1"}
    shown = words(page)
    places = [shown.index(f"{day:%-d %b %Y} {said}") for day, said in (
        (two, "2 pull requests Granted"), (one, "1 pull request Granted"), (old, "1 pull request Granted"),
    )]  # fmt: skip
    assert places == sorted(places)
    assert {"acme/web#20", "acme/web#21", "acme/web#22", "acme/web#23"} <= page.links.keys()
    assert "100 newest" not in shown


def test_page_says_that_there_are_more(member: Enter, acme: Scene) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    [day] = set(let_in(acme, rule, [3] * 101))
    page = member("viewer").open(f"/exceptions/rules/{rule.id}")

    assert "The 100 newest exceptions are counted and listed." in words(page)
    assert counted(page.answer.text) == {f"{day:%-d %B}": "100"}

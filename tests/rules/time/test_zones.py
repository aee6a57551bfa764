"""Names of time zones: those of the IANA database, as they are written there."""

import pytest

from rules.errors import ServiceError
from rules.time.zones import check_zone


@pytest.mark.parametrize("name", ["Europe/London", "UTC", "America/Argentina/Buenos_Aires"])
def test_zone_names_of_the_database_are_accepted(name: str) -> None:
    check_zone(name, "/timezone")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("europe/london", "'europe/london' is not an IANA time zone; did you mean Europe/London?"),
        ("utc", "'utc' is not an IANA time zone; did you mean UTC?"),
        ("Mars/Olympus", "'Mars/Olympus' is not an IANA time zone, such as Europe/London."),
        ("", "'' is not an IANA time zone, such as Europe/London."),
    ],
)
def test_unknown_zone_is_rejected_with_the_right_case_suggested(name: str, said: str) -> None:
    with pytest.raises(ServiceError) as caught:
        check_zone(name, "/timezone")
    assert (caught.value.code, caught.value.message) == ("invalid_timezone", said)
    [detail] = caught.value.details
    assert (detail.path, detail.code, detail.message.rstrip(".")) == ("/timezone", "invalid_timezone", said.rstrip("."))

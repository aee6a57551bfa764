"""Whether two actors are the same person."""

import pytest

from rules.access.persons import Person, Sameness, same_person

ADA, LINKED = Person("user", "usr_ada"), Person("user", "usr_ada", "7")
KEY = Person("api_key", "key_1")


@pytest.mark.parametrize(
    ("one", "other", "sameness"),
    [
        (ADA, LINKED, "same"),
        (ADA, Person("user", "usr_bob"), "different"),
        (KEY, Person("api_key", "key_1"), "same"),
        (KEY, Person("api_key", "key_2"), "different"),
        (KEY, ADA, "different"),
        (Person("code_host", "7"), ADA, "unknown"),
        (Person("code_host", "octocat"), ADA, "unknown"),
        (Person("code_host", "7"), LINKED, "same"),
        (Person("code_host", "8"), LINKED, "different"),
        (Person("code_host", "7"), KEY, "different"),
        (Person("code_host", None), Person("code_host", None), "different"),
    ],
)
def test_persons_are_compared_in_both_directions(one: Person, other: Person, sameness: Sameness) -> None:
    assert (same_person(one, other), same_person(other, one)) == (sameness, sameness)

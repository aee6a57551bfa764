"""Globs, against an oracle that is written another way: a set of states walks over the text."""

import re
import string
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.errors import ServiceError
from rules.freezes.globs import Kind, compile_globs, covers, pattern_error

LONGEST = 256
"""Characters of a pattern, and about those of a name."""


def matches(patterns: list[str], text: str, kind: Kind = "repository") -> bool:
    return compile_globs(patterns, kind, "/patterns").matches(text)


def oracle_one(pattern: str, text: str) -> bool:
    """True if one pattern without `!` matches, by tracking every position that the text read so far can lead to."""
    tokens = re.findall(r"\*\*|.", pattern, re.DOTALL)

    def closed(states: set[int]) -> set[int]:
        reached, waiting = set(states), list(states)
        while waiting:
            state = waiting.pop()
            if state < len(tokens) and tokens[state].startswith("*") and state + 1 not in reached:
                reached.add(state + 1)
                waiting.append(state + 1)
        return reached

    states = closed({0})
    for character in text:
        after = set()
        for state in states:
            token = tokens[state] if state < len(tokens) else None
            if token == "**" or (token == "*" and character != "/"):
                after.add(state)
            elif token == character:
                after.add(state + 1)
        states = closed(after)
    return len(tokens) in states


def oracle(patterns: list[str], text: str, kind: Kind) -> bool:
    included = False
    for pattern in patterns:
        bare, read = pattern.removeprefix("!"), text
        if kind == "repository":
            bare, read = bare.lower(), text.lower()
        if oracle_one(bare, read):
            included = not pattern.startswith("!")
    return included


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        pytest.param(["acme/web"], "acme/web", True, id="a literal pattern matches itself"),
        pytest.param(["acme/web"], "acme/website", False, id="a pattern matches the whole name"),
        pytest.param(["ACME/w*"], "acme/Web", True, id="repositories are matched in any case"),
        pytest.param(["acme/*"], "acme/web.js", True, id="a dot is nothing special in a name"),
        pytest.param(["acme/web.js"], "acme/webxjs", False, id="a dot is nothing special in a pattern"),
        pytest.param(["*/web"], "acme/web", True, id="one asterisk matches an owner"),
        pytest.param(["*/web"], "acme/x/web", False, id="one asterisk does not cross a slash"),
        pytest.param(["acme**"], "acme/web", True, id="two asterisks cross a slash"),
        pytest.param(["acme/*"], "acme/", True, id="an asterisk may match nothing"),
        pytest.param(["*/*", "!acme/docs"], "acme/docs", False, id="an exclusion takes out what came before"),
        pytest.param(["*/*", "!acme/*", "acme/web"], "acme/web", True, id="the last pattern that matches wins"),
        pytest.param(["!acme/web", "*/*"], "acme/web", True, id="an exclusion does not reach what comes after"),
        pytest.param(["acme/*-*-prod"], "acme/a-b-c-prod", True, id="runs settle early and still find the end"),
        pytest.param(["acme/*ab"], "acme/aab", True, id="the end is found behind a false start"),
        pytest.param(["**a/b**"], "x/a/a/b", True, id="the second start is found when the first fails"),
    ],
)
def test_repository_pattern_matches_as_documented(patterns: list[str], text: str, expected: bool) -> None:
    assert matches(patterns, text) is expected


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        pytest.param(["main"], "Main", False, id="branches are matched case and all"),
        pytest.param(["release/*"], "release/2026-11", True, id="one level below"),
        pytest.param(["release/*"], "release/2026/11", False, id="not two levels below"),
        pytest.param(["release/**"], "release/2026/11", True, id="two levels below with two asterisks"),
        pytest.param(["**"], "any/thing at all", True, id="two asterisks match every branch"),
        pytest.param(["v(1)+"], "v(1)+", True, id="brackets and plus signs are nothing special"),
        pytest.param(["ü*"], "über", True, id="letters of other alphabets are letters"),
    ],
)
def test_branch_glob_matches_as_documented(patterns: list[str], text: str, expected: bool) -> None:
    assert matches(patterns, text, "branch") is expected


ATOMS = st.sampled_from(["a", "b", "A", "/", "-", ".", "*", "**"])
TEXTS = st.text(alphabet="abAB/-.", max_size=14)


def pattern_lists(kind: Kind) -> st.SearchStrategy[list[str]]:
    one = st.lists(ATOMS, min_size=1, max_size=9).map("".join).map(lambda text: re.sub(r"\*{3,}", "**", text))
    signed = (
        st.tuples(st.sampled_from(["", "!"]), one).map("".join).filter(lambda text: pattern_error(text, kind) is None)
    )
    return st.lists(signed, min_size=1, max_size=4).filter(lambda texts: not all(text[0] == "!" for text in texts))


@given(pattern_lists("branch"), TEXTS)
@example(["**a*b**"], "xa/ab")
@example(["*a**b/*a"], "aba/b/aa")
@example(["**ab*b"], "abab/abb")
def test_branch_globs_agree_with_the_oracle(patterns: list[str], text: str) -> None:
    assert matches(patterns, text, "branch") is oracle(patterns, text, "branch")


@given(pattern_lists("repository"), TEXTS)
def test_repository_patterns_agree_with_the_oracle(patterns: list[str], text: str) -> None:
    assert matches(patterns, text) is oracle(patterns, text, "repository")


@given(st.text(alphabet=string.ascii_letters + string.digits + "._-", min_size=1, max_size=20))
def test_pattern_without_wildcards_matches_only_itself(name: str) -> None:
    assert matches([f"acme/{name}"], f"ACME/{name}".swapcase())
    assert not matches([f"acme/{name}"], f"acme/{name}x")
    assert not matches([f"acme/{name}"], f"x/acme/{name}")


HOSTILE = [
    pytest.param("a/" + "*a" * 126, "a/" + "a" * 250 + "b", id="one asterisk after another"),
    pytest.param("**a" * 85, "a" * 255 + "b", id="two asterisks after another"),
    pytest.param("**a*b" * 50, "ab/" * 85 + "c", id="both in turn"),
    pytest.param("**" + "a*" * 127, "a" * 255, id="a crossing and then many runs"),
    pytest.param("**" + "ab*" * 84 + "c", "ab" * 127 + "d", id="a crossing and then many longer runs"),
    pytest.param("*" + "a" * 200 + "b", "a" * 255, id="a long literal that almost fits"),
    pytest.param("**" + "a" * 200 + "**" + "a" * 50 + "b", "a" * 255, id="two long literals that almost fit"),
]


@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_matching_takes_linear_time(pattern: str, text: str) -> None:
    pattern = pattern[:LONGEST].rstrip("*") + "z"
    glob = compile_globs([pattern] * 40, "branch", "/patterns")  # 10 kB of them
    assert min(seconds_of(lambda: glob.matches(text)) for _ in range(3)) < 0.25


@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_hostile_patterns_are_matched_like_any_other(pattern: str, text: str) -> None:
    pattern = pattern[:LONGEST].replace("***", "**")
    for each in (text, text + "z", text[:-1]):
        assert matches([pattern], each, "branch") is oracle([pattern], each, "branch")


def seconds_of(action: object) -> float:
    start = process_time()
    action()  # type: ignore[operator]
    return process_time() - start


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        pytest.param("", "branch", id="nothing"),
        pytest.param("!", "branch", id="only an exclamation mark"),
        pytest.param("!!main", "branch", id="two exclamation marks"),
        pytest.param("a***", "branch", id="three asterisks"),
        pytest.param("a b", "branch", id="a space"),
        pytest.param("a[b]", "branch", id="a character class"),
        pytest.param("{a,b}", "branch", id="alternatives"),
        pytest.param("a?", "branch", id="a question mark"),
        pytest.param("a\\*", "branch", id="a backslash"),
        pytest.param("a\x00", "branch", id="a NUL"),
        pytest.param("acme", "repository", id="a repository without an owner"),
        pytest.param("a/b/c", "repository", id="a repository with two slashes"),
        pytest.param("acme/[web]", "repository", id="a character class in a repository"),
        pytest.param("acme/wéb", "repository", id="a letter that no repository has"),
        pytest.param("acme/web\n", "repository", id="a line feed at the end"),
        pytest.param("**/*", "path", id="a path that names nothing"),
        pytest.param("*.*", "path", id="a path that names nothing but a dot"),
        pytest.param("!src/**", "path", id="an exclusion in a path"),
        pytest.param("/docs/**", "path", id="a path from the root of a file system"),
        pytest.param("docs/../src", "path", id="a path that goes up"),
        pytest.param("docs/[ab]", "path", id="a character class in a path"),
        pytest.param("docs/a\nb", "path", id="a line feed in a path"),
    ],
)
def test_invalid_pattern_is_reported_with_its_pointer(pattern: str, kind: Kind) -> None:
    with pytest.raises(ServiceError) as caught:
        compile_globs(["a/b", pattern], kind, "/scope/patterns")
    assert caught.value.code == "invalid_glob"
    assert [detail.path for detail in caught.value.details] == ["/scope/patterns/1"]


def test_every_invalid_pattern_of_a_list_is_reported() -> None:
    with pytest.raises(ServiceError) as caught:
        compile_globs(["a b", "main", "c d"], "branch", "/x")
    assert [detail.path for detail in caught.value.details] == ["/x/0", "/x/2"]


@pytest.mark.parametrize(("kind", "begin"), [("repository", "*/*"), ("branch", "**")])
def test_list_of_exclusions_is_rejected_with_a_hint(kind: Kind, begin: str) -> None:
    with pytest.raises(ServiceError) as caught:
        compile_globs(["!a/b", "!c/d"], kind, "/patterns")
    assert caught.value.code == "invalid_glob"
    assert begin in caught.value.message
    compile_globs([begin, "!a/b"], kind, "/patterns")


@given(st.text(max_size=30))
def test_any_text_is_compiled_or_rejected(pattern: str) -> None:
    try:
        glob = compile_globs([pattern], "branch", "/patterns")
    except ServiceError as error:
        assert error.code == "invalid_glob"  # noqa: PT017 - either outcome is right
    else:
        glob.matches("main")


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (["acme/*"], ["acme/web"], True),
        (["ACME/*"], ["acme/w*", "acme/api"], True),
        (["*/*"], ["**"], True),
        (["**"], ["acme/*", "!acme/docs"], True),
        (["acme/**"], ["acme/*"], True),
        (["acme/w*"], ["acme/*"], False),
        (["acme/web"], ["acme/web", "acme/api"], False),
        (["acme/*", "globex/*"], ["acme/a*", "globex/b*"], True),
        (["acme/*", "!acme/docs"], ["acme/*"], False),
        (["acme/*", "!acme/docs"], ["acme/w*"], True),
        (["acme/*", "!acme/docs"], ["acme/*", "!acme/d*"], True),
        (["acme/*", "!acme/d*"], ["acme/*", "!acme/docs"], False),
        (["acme/*", "!acme/docs"], ["acme/*", "!acme/docs", "acme/docs"], False),
        (["acme/*", "!acme/docs", "acme/docs"], ["acme/*"], True),
        (["acme*"], ["acme/*"], False),
        (["acme**"], ["acme/*"], True),
        (["a*/b*"], ["a**b"], False),
    ],
    ids=str,
)
def test_patterns_cover_narrower_patterns(outer: list[str], inner: list[str], expected: bool) -> None:
    outer = [each for each in outer if pattern_error(each, "repository") is None]
    assert covers(outer, inner, "repository") is expected


SIDES = st.text("ab*", min_size=1, max_size=3).filter(lambda text: "***" not in text)
PATTERN_LISTS = st.lists(
    st.builds("{}{}/{}".format, st.sampled_from(["", "", "!"]), SIDES, SIDES)
    | st.sampled_from(["**", "a**", "**b", "a**b", "**a**", "!**b"]),
    min_size=1,
    max_size=4,
)
REPOSITORY_NAMES = st.builds("{}/{}".format, *[st.text("abc", min_size=1, max_size=4)] * 2)


@given(PATTERN_LISTS, PATTERN_LISTS, st.lists(REPOSITORY_NAMES, min_size=1, max_size=20))
def test_covered_patterns_match_nothing_outside(outer: list[str], inner: list[str], names: list[str]) -> None:
    patterns = [*outer, *inner]
    if any(pattern_error(each, "repository") for each in patterns) or not covers(outer, inner, "repository"):
        return
    if all(each.startswith("!") for each in outer) or all(each.startswith("!") for each in inner):
        return
    narrow, wide = (compile_globs(each, "repository", "/patterns") for each in (inner, outer))
    assert [name for name in names if narrow.matches(name) and not wide.matches(name)] == []


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (["*"], ["main"], True),
        (["*"], ["release/1.x"], False),
        (["**"], ["release/*", "main"], True),
        (["main", "release/*"], ["main"], True),
        (["main"], ["main", "release/*"], False),
        (["release/*"], ["release/**"], False),
        (["release/**"], ["release/*"], True),
        (["**"], ["**"], True),
        (["**/*"], ["**"], False),
        (["Main"], ["main"], False),
        (["**", "!main"], ["**"], False),
        (["**", "!main"], ["release/*"], True),
    ],
    ids=str,
)
def test_branch_patterns_cover_narrower_patterns(outer: list[str], inner: list[str], expected: bool) -> None:
    assert covers(outer, inner, "branch") is expected


BRANCH_LISTS = st.lists(
    st.builds("{}{}".format, st.sampled_from(["", "", "!"]), st.text("ab*/", min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)
BRANCH_NAMES = st.text("abc/", min_size=1, max_size=8)


@given(BRANCH_LISTS, BRANCH_LISTS, st.lists(BRANCH_NAMES, min_size=1, max_size=20))
def test_covered_branch_patterns_match_nothing_outside(outer: list[str], inner: list[str], names: list[str]) -> None:
    patterns = [*outer, *inner]
    if any(pattern_error(each, "branch") for each in patterns) or not covers(outer, inner, "branch"):
        return
    if all(each.startswith("!") for each in outer) or all(each.startswith("!") for each in inner):
        return
    narrow, wide = (compile_globs(each, "branch", "/branches") for each in (inner, outer))
    assert [name for name in names if narrow.matches(name) and not wide.matches(name)] == []

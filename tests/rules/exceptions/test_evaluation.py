"""Rules of exceptions: what they let in, and that nothing does which the author of a head controls alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rules.exceptions.evaluation import Evaluation, Evidence, evaluate
from rules.exceptions.facts import (
    Approval,
    ChangedFile,
    ChangedFiles,
    Commit,
    GitHubAccount,
    Label,
    RuleFacts,
    TeamMembers,
    Unknown,
)
from rules.exceptions.language import Identities, Team, parse_allow

CAPTAIN, BOT, AUTHOR, MALLORY = (
    GitHubAccount(1, "captain"),
    GitHubAccount(2, "bot[bot]"),
    GitHubAccount(3, "author"),
    GitHubAccount(4, "mallory"),
)
IDENTITIES = Identities(
    accounts={"captain": CAPTAIN.id, "bot[bot]": BOT.id}, teams={"acme/captains": Team(id=7, organization_id=70)}
)
MEMBERS: TeamMembers = {7: frozenset({CAPTAIN.id, 5})}
HEAD, OLD_HEAD = "a" * 40, "b" * 40
SEEN = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
LATER = SEEN + timedelta(minutes=5)

BY_CAPTAINS = {"teams": ["acme/captains"]}
DOCS = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
HOTFIX = {"label": {"name": "hotfix", "setBy": BY_CAPTAINS}}
FROM_BOT = {"author": {"accounts": ["bot[bot]"]}}
APPROVED = {"approvals": {"fromTeam": "acme/captains", "atLeast": 1}}

NO_APPROVAL = "It has 0, not counting those who wrote the head."
OWN_LABEL = "It was set by captain, who wrote the head."
CHANGED_LABEL = "The label was renamed or changed after it was set; set it again."
OLD_LABEL = "It was set before this head and base were seen; set it again."


def commit(author: GitHubAccount, sha: str = HEAD, **changes: Any) -> Commit:
    """Return a commit that an account wrote and signed."""
    return replace(Commit(sha, author.id, author.id, author.id), **changes)


def files(*paths: str | tuple[str, str]) -> ChangedFiles:
    """Return changed files; a pair is a rename to the first name."""
    return ChangedFiles(
        tuple(ChangedFile(path) if isinstance(path, str) else ChangedFile(*path) for path in paths), True
    )


FACTS = RuleFacts(
    number=12,
    head_sha=HEAD,
    base="main",
    updated_at=LATER,
    author=AUTHOR,
    same_repository=True,
    head_branch="topic",
    changed_lines=10,
    changed_files=1,
    files=files("docs/guide.md"),
    labels=(Label("hotfix", CAPTAIN, LATER),),
    approvals=(Approval(CAPTAIN, HEAD, LATER),),
    commits=(commit(AUTHOR),),
    pushed_by=frozenset({AUTHOR.id}),
)


def judge(
    condition: dict[str, Any], *, self_approval: bool = False, members: Any = MEMBERS, **facts: Any
) -> Evaluation:
    """Return what becomes of a rule with a condition on a pull request with these facts."""
    allow = condition if condition.keys() & {"all", "any"} else {"all": [condition]}
    evidence = Evidence(replace(FACTS, **facts), SEEN, IDENTITIES, members, self_approval)
    return evaluate(parse_allow(allow), evidence)


@pytest.mark.parametrize(
    ("condition", "facts"),
    [
        (DOCS, {}),
        (DOCS, {"files": files(("docs/b.md", "docs/a.md"), "README.md")}),
        (DOCS, {"files": files("docs/Übersicht für\nalle.md")}),
        ({"paths": {"onlyMatching": ["docs/**"], "noneMatching": ["docs/api/**"]}}, {}),
        (HOTFIX, {}),
        (HOTFIX, {"labels": (Label("Hotfix", CAPTAIN, LATER),)}),
        (HOTFIX, {"labels": (Label("hotfix", CAPTAIN, LATER, changed_at=LATER - timedelta(seconds=1)),)}),
        (FROM_BOT, {"author": BOT, "commits": (commit(BOT, OLD_HEAD), commit(BOT))}),
        (FROM_BOT, {"author": BOT, "commits": (commit(BOT, committer_id=99, by_github=True),)}),
        (APPROVED, {}),
        ({"head": {"sameRepository": True}}, {}),
        ({"changedLines": {"atMost": 10}}, {}),
        ({"any": [FROM_BOT, DOCS]}, {}),
        ({"all": [DOCS, {"any": [FROM_BOT, HOTFIX]}]}, {}),
        ({"any": [FROM_BOT, {"all": [DOCS, APPROVED]}]}, {}),
    ],
)
def test_rule_lets_in_what_meets_its_conditions(condition: dict[str, Any], facts: dict[str, Any]) -> None:
    assert judge(condition, **facts).outcome == "met"


@pytest.mark.parametrize(
    ("condition", "facts", "found"),
    [
        # Files: both names of a rename, what is protected, and a list that GitHub cuts.
        (DOCS, {"files": files("docs/a.md", "src/main.py")}, "It changes src/main.py."),
        (DOCS, {"files": files(("docs/main.py", "src/main.py"))}, "It changes src/main.py."),
        (DOCS, {"files": files("README.MD")}, "It changes README.MD."),
        (DOCS, {"files": files()}, "It changes no file."),
        (DOCS, {"files": Unknown("GitHub lists 3,000 files")}, "It is not known: GitHub lists 3,000 files."),
        (DOCS, {"files": files("docs/CODEOWNERS")}, "It changes docs/CODEOWNERS, which no path lets in."),
        (DOCS, {"files": files("docs/../src/a")}, "It changes docs/../src/a, which no path lets in."),
        (
            {"paths": {"onlyMatching": [".github/**"]}},
            {"files": files(".github/workflows/ci.yml")},
            "It changes .github/workflows/ci.yml, which no path lets in.",
        ),
        ({"paths": {"noneMatching": ["docs/**"]}}, {}, "It changes docs/guide.md."),
        # Labels: who set it, when, and for which head.
        (HOTFIX, {"labels": ()}, "It does not have the label."),
        (HOTFIX, {"labels": (Label("hotfix", MALLORY, LATER),)}, "It was set by mallory."),
        (HOTFIX, {"labels": (Label("hotfix", None, None),)}, "GitHub does not say who set the label."),
        (
            HOTFIX,
            {"labels": (Label("hotfix", CAPTAIN, SEEN + timedelta(seconds=5)),)},
            OLD_LABEL,
        ),
        (HOTFIX, {"changed_at": LATER}, OLD_LABEL),
        (
            HOTFIX,
            {"labels": (Label("hotfix", CAPTAIN, LATER, changed_at=LATER),)},
            CHANGED_LABEL,
        ),
        (
            HOTFIX,
            {"labels": (Label("hotfix", CAPTAIN, LATER, changed_at=LATER + timedelta(seconds=1)),)},
            CHANGED_LABEL,
        ),
        (HOTFIX, {"author": CAPTAIN}, OWN_LABEL),
        (
            HOTFIX,
            {"commits": (commit(CAPTAIN, OLD_HEAD), commit(AUTHOR))},
            OWN_LABEL,
        ),
        (HOTFIX, {"commits": (commit(CAPTAIN, committer_id=AUTHOR.id),)}, OWN_LABEL),
        (HOTFIX, {"commits": (commit(AUTHOR, committer_id=CAPTAIN.id),)}, OWN_LABEL),
        (HOTFIX, {"forced_by": frozenset({CAPTAIN.id})}, OWN_LABEL),
        (HOTFIX, {"pushed_by": frozenset({AUTHOR.id, CAPTAIN.id})}, OWN_LABEL),
        (HOTFIX, {"pushed_by": Unknown("it was pushed too often")}, "It is not known: it was pushed too often."),
        (
            HOTFIX,
            {"commits": (commit(AUTHOR, author_id=None),)},
            "It is not known: commit aaaaaaa is from an address that no account has.",
        ),
        (
            HOTFIX,
            {"commits": (commit(AUTHOR, committer_id=None),)},
            "It is not known: commit aaaaaaa is from an address that no account has.",
        ),
        (HOTFIX, {"labels": Unknown("it has 101 labels")}, "It is not known: it has 101 labels."),
        (
            HOTFIX,
            {"members": {7: Unknown("the App may not read teams")}},
            "It is not known: GitHub does not say who is in @acme/captains (the App may not read teams).",
        ),
        (HOTFIX, {"members": {}}, "It is not known: the team @acme/captains is not known."),
        (HOTFIX, {"members": {7: frozenset()}}, "It was set by captain."),
        # Authors: verified signatures, and not names or addresses.
        (FROM_BOT, {}, "The author is author."),
        (FROM_BOT, {"author": BOT}, "Commit aaaaaaa is not theirs by a signature that GitHub verified."),
        (
            FROM_BOT,
            {"author": BOT, "commits": (commit(BOT), commit(BOT, OLD_HEAD, signed_by=None))},
            "Commit bbbbbbb is not theirs by a signature that GitHub verified.",
        ),
        (
            FROM_BOT,
            {"author": BOT, "commits": (commit(BOT, signed_by=MALLORY.id),)},
            "Commit aaaaaaa is not theirs by a signature that GitHub verified.",
        ),
        (
            FROM_BOT,
            {"author": BOT, "commits": (commit(MALLORY, signed_by=BOT.id),)},
            "Commit aaaaaaa is not theirs by a signature that GitHub verified.",
        ),
        (FROM_BOT, {"author": BOT, "commits": ()}, "It has no commit."),
        (FROM_BOT, {"author": Unknown("its author is gone")}, "It is not known: its author is gone."),
        (FROM_BOT, {"author": BOT, "commits": Unknown("it has 251 commits")}, "It is not known: it has 251 commits."),
        # Approvals: of this head, from the team, by nobody who wrote it.
        (APPROVED, {"approvals": ()}, NO_APPROVAL),
        (
            APPROVED,
            {"approvals": (Approval(CAPTAIN, OLD_HEAD, LATER),)},
            NO_APPROVAL,
        ),
        (
            APPROVED,
            {"approvals": (Approval(MALLORY, HEAD, LATER),)},
            NO_APPROVAL,
        ),
        (APPROVED, {"changed_at": LATER}, NO_APPROVAL),
        (APPROVED, {"commits": (commit(CAPTAIN),)}, NO_APPROVAL),
        (APPROVED, {"pushed_by": frozenset({CAPTAIN.id})}, NO_APPROVAL),
        (
            {"approvals": {"fromTeam": "acme/captains", "atLeast": 2}},
            {"approvals": (Approval(CAPTAIN, HEAD, LATER), Approval(CAPTAIN, HEAD, LATER))},
            "It has 1, not counting those who wrote the head.",
        ),
        ({"head": {"sameRepository": True}}, {"same_repository": False}, "The head is in a fork."),
        ({"changedLines": {"atMost": 10}}, {"changed_lines": 11}, "It changes 11 lines."),
    ],
)
def test_rule_keeps_out_what_misses_a_condition(condition: dict[str, Any], facts: dict[str, Any], found: str) -> None:
    result = judge(condition, **facts)

    assert result.outcome == "missed"
    assert [missing.found for missing in result.missing] == [found]


@pytest.mark.parametrize("condition", [HOTFIX, APPROVED])
def test_own_label_or_approval_counts_where_self_approval_is_allowed(condition: dict[str, Any]) -> None:
    assert judge(condition, author=CAPTAIN, self_approval=True).outcome == "met"


@pytest.mark.parametrize(
    ("condition", "facts"),
    [
        (DOCS, {"files": ChangedFiles((ChangedFile("docs/a.md"),), complete=False)}),
        (HOTFIX, {"commits": None}),
        (APPROVED, {"commits": None}),
        (APPROVED, {"pushed_by": None}),
        (FROM_BOT, {"author": BOT, "commits": None}),
        ({"any": [FROM_BOT, HOTFIX]}, {"commits": None}),
    ],
)
def test_condition_is_open_when_facts_it_needs_are_not_read(condition: dict[str, Any], facts: dict[str, Any]) -> None:
    assert judge(condition, **facts).outcome == "open"


@pytest.mark.parametrize(
    ("condition", "facts"),
    [
        (DOCS, {"files": ChangedFiles((ChangedFile("src/a.py"),), complete=False)}),
        (HOTFIX, {"labels": (), "commits": None}),
        ({"all": [HOTFIX, DOCS]}, {"commits": None, "files": files("src/a.py")}),
    ],
)
def test_condition_is_missed_without_further_facts(condition: dict[str, Any], facts: dict[str, Any]) -> None:
    assert judge(condition, **facts).outcome == "missed"


def test_conditions_say_what_they_require() -> None:
    paths = {"paths": {"onlyMatching": ["docs/**", "*.md"], "noneMatching": ["docs/api/**"]}}
    rule = {"all": [paths, HOTFIX, {"any": [FROM_BOT, APPROVED]}, {"head": {"sameRepository": True}}]}

    assert [result.requires for result in judge(rule).conditions] == [
        "only files that match docs/** or *.md and no file that matches docs/api/**",
        "the label hotfix, set by @acme/captains on this head",
        "bot[bot] as author, and as verified signer of every commit",
        "1 approval of this head from @acme/captains",
        "a head in this repository",
    ]

"""Names of branches, compared with git itself."""

import subprocess

import pytest

from rules.freezes.branch_names import branch_name_error

VALID = ["main", "release/1.x", "a.b", "feature/@home", "@x", "\u00fcn\u00efcode", "a-b", "lock", "x.lockx", "a" * 200]
INVALID = [
    *("-x", "a..b", "x.lock", "x.lock/y", ".x", "a/.b", "/a", "a/", "a//b", "a.", "a@{b", "a b", "a~b", "a^b"),
    *("a:b", "a?b", "a*b", "a[b", "a\\b", "a\x7fb", "a\nb", "HEAD"),
]
REFS = ["refs/heads/main", "refs/tags/v1"]
"""Git would make a branch of that name; GitHub does not, and people mean the branch main."""


@pytest.mark.parametrize("name", [*VALID, *INVALID])
def test_branch_name_is_valid_if_git_accepts_it(name: str) -> None:
    git = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    assert (git.returncode == 0) == (name in VALID)
    assert (branch_name_error(name) is None) == (name in VALID)


@pytest.mark.parametrize("name", REFS)
def test_ref_is_no_branch_name(name: str) -> None:
    assert branch_name_error(name) == "must be without refs/heads/"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("-x", "must not begin with a hyphen"),
        ("x.", "must not end with a dot"),
        ("a/.x", "must not have a part that begins with a dot"),
        ("a.lock/x", "must not have a part that ends with .lock"),
        ("HEAD", "stands for a commit; send the name of the branch"),
    ],
)
def test_error_of_a_branch_name_says_what_is_wrong(name: str, problem: str) -> None:
    assert branch_name_error(name) == problem

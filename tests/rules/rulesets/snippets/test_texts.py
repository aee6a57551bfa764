"""Snippets as texts: complete, without secrets, and the same rule in every tool's language."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules.rulesets.rulesets import desired_ruleset
from rules.rulesets.snippets import PlacedRuleset
from rules.rulesets.snippets.quoting import hcl_string, jq_string
from rules.rulesets.snippets.terraform import label
from tests.rules.rulesets.snippets.conftest import NASTY, TOKEN, made

API = "https://api.github.com"
ENABLED = {"enable": "active", "disable": "disabled", "restore": "active"}
NAMES = st.text(
    st.one_of(st.sampled_from("$%{}\"\\`'~é"), st.characters(exclude_categories=("Cc", "Cs"))), min_size=1, max_size=12
).filter(lambda name: "**" not in name)
ARGUMENTS = {
    "github_repository_ruleset": {"name", "repository", "target", "enforcement", "conditions", "rules"},
    "github_organization_ruleset": {"name", "target", "enforcement", "conditions", "rules"},
    "conditions": {"ref_name", "repository_id"},
    "ref_name": {"include", "exclude"},
    "rules": {"required_status_checks"},
    "required_status_checks": {"strict_required_status_checks_policy", "do_not_enforce_on_create", "required_check"},
    "required_check": {"context", "integration_id"},
}
"""What the documentation of the provider integrations/github allows in each block that is used here."""


def decoded(value: Any) -> Any:
    """Return what python-hcl2 read, with strings as Terraform reads them."""
    if isinstance(value, str):
        wide = re.sub(r"\\U([0-9a-f]{8})", lambda found: chr(int(found[1], 16)), value)
        return json.loads(wide)
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        return {name: decoded(item) for name, item in value.items() if name != "__is_block__"}
    return value


def resource_of(content: str) -> tuple[str, str, dict[str, Any]]:
    """Parse a snippet of one resource: its type, its label, and its body."""
    [resource] = hcl2.loads(content)["resource"]
    [(kind, labelled)] = resource.items()
    [(name, body)] = labelled.items()
    return json.loads(kind), json.loads(name), decoded(body)


def as_ruleset(resource: dict[str, Any]) -> dict[str, Any]:
    """Return GitHub's JSON of a Terraform resource, as the provider sends it."""
    [conditions], [rules] = resource["conditions"], resource["rules"]
    [names], [required] = conditions["ref_name"], rules["required_status_checks"]
    checks = required.pop("required_check")
    by_repository = (
        {"repository_id": {"repository_ids": conditions["repository_id"]}} if "repository_id" in conditions else {}
    )
    return {
        "name": resource["name"],
        "target": resource["target"],
        "enforcement": resource["enforcement"],
        "bypass_actors": [],
        "conditions": {"ref_name": names} | by_repository,
        "rules": [{"type": "required_status_checks", "parameters": required | {"required_status_checks": checks}}],
    }


def strange_arguments(block: str, body: dict[str, Any]) -> set[str]:
    """Return what the provider does not know, in a block and those within it."""
    strange = set(body) - ARGUMENTS[block]
    for name, value in body.items():
        if name in ARGUMENTS:
            strange |= set().union(*(strange_arguments(name, inner) for inner in value))
    return strange


def test_every_tool_has_a_snippet_for_each_purpose_and_level() -> None:
    snippets = made("main", API)
    tools, levels = ("gh", "curl", "terraform", "ruleset_json"), ("repository", "organization")
    assert set(snippets) == {(tool, level, purpose) for tool in tools for level in levels for purpose in ENABLED}


@pytest.mark.parametrize("branch", ["main", *NASTY])
def test_no_snippet_holds_a_token(branch: str) -> None:
    for snippet in made(branch, API).values():
        assert TOKEN not in snippet.content
        assert not re.search(r"gh[a-z]_|github_pat_|Bearer [^$]", snippet.content.replace('Bearer "$', "Bearer $"))


@pytest.mark.parametrize("branch", NASTY)
def test_snippets_have_only_visible_ascii_characters(branch: str) -> None:
    for snippet in made(branch, API).values():
        assert snippet.content.replace("\n", "").isascii()
        assert snippet.content.replace("\n", "").isprintable()


@pytest.mark.parametrize("branch", NASTY)
def test_snippet_titles_name_the_level_and_not_the_branch(branch: str) -> None:
    for (_tool, level, _purpose), snippet in made(branch, API).items():
        assert ("the organisation acme" if level == "organization" else "acme/web") in snippet.title
        assert snippet.title.replace("“", "").replace("”", "").isascii()


@settings(max_examples=15)  # parsing a text takes 20 ms
@given(branch=NAMES)
@example(branch="${a}")
@example(branch="$${a}")
@example(branch="%{for x in y}")
@example(branch='"\n}'.replace("\n", ""))
@example(branch="release/*")
@example(branch="a**b/**")
def test_terraform_defines_the_same_ruleset_as_the_json(branch: str) -> None:
    snippets = made(branch, API, [12, 34])
    for (tool, level, purpose), snippet in snippets.items():
        if tool == "terraform":
            kind, _label, resource = resource_of(snippet.content)
            assert kind == f"github_{level}_ruleset"
            assert resource.get("repository") == ("web" if level == "repository" else None)
            wanted = json.loads(snippets["ruleset_json", level, "enable"].content)
            assert as_ruleset(resource) == wanted | {"enforcement": ENABLED[purpose]}


@pytest.mark.parametrize("level", ["repository", "organization"])
def test_terraform_uses_only_arguments_of_its_provider(level: str) -> None:
    kind, _label, resource = resource_of(made("a**b", API, [1, 2])["terraform", level, "enable"].content)
    assert strange_arguments(kind, resource) == set()


def _label_of(branch: str, repository: str = "web") -> str:
    ruleset = desired_ruleset(f"change-freeze/{branch}", 1)
    return label(PlacedRuleset("repository", "acme", repository, ruleset, "", API))


@given(one=NAMES, other=NAMES)
@example(one="release/*", other="release_")
@example(one="日本", other="😀")
def test_terraform_labels_are_valid_and_unique(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", _label_of(one))
    assert (_label_of(one) == _label_of(other)) == (one == other)
    assert _label_of(one, "web") != _label_of(one, "api")


def test_name_that_terraform_would_normalize_has_no_terraform_snippet() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert any(tool == "terraform" for tool, _level, _purpose in made(composed, API))
    assert not any(tool == "terraform" for tool, _level, _purpose in made(decomposed, API))


def terraform(*arguments: str, stdin: str, directory: Path) -> str:
    program = shutil.which("terraform") or shutil.which("tofu")
    if program is None:
        pytest.skip("neither terraform nor tofu is installed; python-hcl2 parses the same texts")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(directory),
        "TF_CLI_CONFIG_FILE": "/dev/null",
        "CHECKPOINT_DISABLE": "1",
    }
    ended = subprocess.run(
        [program, *arguments], input=stdin, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


def test_terraform_snippet_is_formatted(tmp_path: Path) -> None:
    snippets = (made(branch, API, [1, 2]) for branch in ("main", "a**b/**", *NASTY))
    texts = [snippet.content for some in snippets for key, snippet in some.items() if key[0] == "terraform"]
    everything = "\n".join(texts)
    assert terraform("fmt", "-", stdin=everything, directory=tmp_path) == everything


def test_terraform_reads_every_name_unchanged(tmp_path: Path) -> None:
    names = [*NASTY, "$", "$$", "%%{", "${", '"', "\\", "\\n", "$${{", "a$"]
    expression = f"base64encode(jsonencode([{', '.join(map(hcl_string, names))}]))\n"
    encoded = terraform("console", stdin=expression, directory=tmp_path).strip().strip('"')
    assert json.loads(base64.b64decode(encoded)) == names


@given(text=st.text(st.characters(codec="utf-8"), max_size=20))
@example(text="it's !\\(1)")
def test_jq_string_is_safe_within_single_quotes(text: str) -> None:
    quoted = jq_string(text)
    assert json.loads(quoted) == text
    assert not set(quoted) & set("'!\n")
    assert re.search(r"(?<!\\)(\\\\)*\\\(", quoted) is None

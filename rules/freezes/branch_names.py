"""Names of branches, as git allows them: https://git-scm.com/docs/git-check-ref-format (with `--branch`)."""

import re

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")


def branch_name_error(name: str) -> str | None:
    """Return why a text is not the name of a branch, or None."""
    forbidden = _FORBIDDEN.search(name)
    parts = name.split("/")
    errors = (
        (name.startswith("refs/"), "must be without refs/heads/"),
        (forbidden is not None, f"contains {forbidden[0] if forbidden else ''!r}, which no branch name contains"),
        (".." in name or "@{" in name, "contains .. or @{, which no branch name contains"),
        ("" in parts, "has an empty part before, between or after slashes"),
        (any(part.startswith(".") for part in parts), "must not have a part that begins with a dot"),
        (any(part.endswith(".lock") for part in parts), "must not have a part that ends with .lock"),
        (name.startswith("-"), "must not begin with a hyphen"),
        (name.endswith("."), "must not end with a dot"),
        (name in {"@", "HEAD"}, "stands for a commit; send the name of the branch"),
    )
    return next((message for wrong, message in errors if wrong), None)

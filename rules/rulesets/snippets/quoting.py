"""Writing text into shell, jq and HCL so that no branch name is ever read as a command, an expression or a template.

A branch name may hold quotes, backquotes, `$(…)`, `${…}`, `%{…}` and any Unicode, also what is invisible or turns the
direction of writing; other than ASCII characters are therefore escaped, so that nothing invisible is pasted.
"""

import json
import shlex
from typing import Any


def shell_word(text: str) -> str:
    """Return text as one word of a POSIX shell; it has to be ASCII, or visible text."""
    return shlex.quote(text)


def here_document(value: Any, mark: str) -> str:
    """Return the rest of a command that reads JSON from a here-document, in which the shell expands nothing.

    No line of JSON is `mark`. Exclamation marks are escaped, since interactive shells look for them before all else.
    """
    return f"<<'{mark}'\n{_without_bang(json_text(value))}\n{mark}"


def _without_bang(json_of_strings: str) -> str:
    return json_of_strings.replace("!", "\\u0021")


def json_text(value: Any) -> str:
    """Return JSON in ASCII on lines of their own, each of which begins with a bracket, a brace or a space."""
    return json.dumps(value, indent=2)


def jq_string(text: str) -> str:
    """Return a string of jq's language that can stand between single quotes of a shell.

    jq reads JSON's escapes and evaluates what stands in brackets after a backslash; every backslash is doubled here.
    """
    return _without_bang(json.dumps(text)).replace("'", "\\u0027")


def hcl_string(text: str) -> str:
    """Return a string of Terraform's language in ASCII, in which no template begins."""
    return '"' + "".join(_hcl_character(*pair) for pair in zip(text, text[1:] + " ", strict=True)) + '"'


def _hcl_character(character: str, following: str) -> str:
    number = ord(character)
    if character in {'"', "\\"}:
        return "\\" + character
    begins_template = character in "$%" and following == "{"
    if begins_template or not " " <= character <= "~":
        # Escapes are read after templates were looked for, so that no dollar signs need to be counted.
        return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
    return character

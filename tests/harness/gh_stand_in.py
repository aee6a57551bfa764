"""Stands in for `gh api` where GitHub's command line is not installed: the flags that its manual documents, no others.

Run as a program: `GH_ADDRESS` is the API's address (the true one takes https://api.github.com, or that of
`--hostname`), `GH_TOKEN` the token; with a whole address as endpoint it is `GH_ENTERPRISE_TOKEN`. A refusal is printed
with its body, and ends with status 1.
"""

import argparse
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from email.message import Message


def arguments() -> argparse.Namespace:
    """Read the command line; an unknown flag is an error, as it is to gh."""
    parser = argparse.ArgumentParser(prog="gh api", allow_abbrev=False)
    parser.add_argument("endpoint")
    parser.add_argument("--hostname")
    parser.add_argument("-X", "--method")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("--input")
    parser.add_argument("-f", "--raw-field", action="append", default=[])
    parser.add_argument("-q", "--jq")
    parser.add_argument("--paginate", action="store_true")
    assert sys.argv[1] == "api"
    return parser.parse_args(sys.argv[2:])


def send(request: urllib.request.Request) -> tuple[bytes, Message]:
    """Send a request; a refusal ends the program."""
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        sys.stdout.buffer.write(error.read())
        sys.exit(f"gh: HTTP {error.code}")


def next_page(headers: Message) -> str | None:
    """Return the address of the page that follows."""
    links = (part.split(";") for part in (headers.get("Link") or "").split(","))
    return next((link[0].strip(" <>") for link in links if 'rel="next"' in link[-1]), None)


def main() -> None:
    """Do what is asked, page by page."""
    given = arguments()
    fields = dict(field.split("=", 1) for field in given.raw_field)
    body = sys.stdin.buffer.read() if given.input == "-" else json.dumps(fields).encode() if fields else None
    headers = dict(header.split(":", 1) for header in given.header)
    token = os.environ["GH_ENTERPRISE_TOKEN" if "://" in given.endpoint else "GH_TOKEN"]
    headers |= {"Authorization": f"token {token}", "Content-Type": "application/json"}
    address = given.endpoint if "://" in given.endpoint else f"{os.environ['GH_ADDRESS']}/{given.endpoint.lstrip('/')}"
    url: str | None = address
    while url:
        content, answered = send(
            urllib.request.Request(url, body, headers, method=given.method or ("POST" if body else "GET"))
        )
        if given.jq is not None:
            content = subprocess.run(["jq", "-r", given.jq], input=content, check=True, capture_output=True).stdout
        sys.stdout.buffer.write(content)
        url = next_page(answered) if given.paginate else None


if __name__ == "__main__":
    main()

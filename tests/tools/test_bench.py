"""The measurements run: a figure that nobody can repeat is none."""

import asyncio

import pytest

from tools.bench import edge


def test_request_pipeline_is_measured_for_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(edge.compare(seconds=0.01, rounds=1))
    lines = capsys.readouterr().out.splitlines()
    assert [line[:20].rstrip() for line in lines[1:]] == [case.name for case in edge.CASES]

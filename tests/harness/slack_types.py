"""Blocks and forms held against the types of Slack's own package `@slack/types`, by the TypeScript compiler."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "node_modules"
COMPILER = MODULES / "typescript" / "bin" / "tsc"
TIMEOUT = 120.0
OPTIONS = ("--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--module", "nodenext")


def type_errors(directory: Path, messages: Sequence[Sequence[Any]], views: Sequence[Any]) -> str:
    """Return what the compiler says about the blocks of messages, and about forms; nothing if they have the types."""
    (directory / "node_modules").symlink_to(MODULES)
    (directory / "package.json").write_text('{"type": "module"}')
    lines = ['import type { KnownBlock, ModalView } from "@slack/types";']
    lines += [f"const message{number}: KnownBlock[] = {json.dumps(each)};" for number, each in enumerate(messages)]
    lines += [f"const view{number}: ModalView = {json.dumps(each)};" for number, each in enumerate(views)]
    lines.append(f"export default {json.dumps([len(messages), len(views)])};")
    program = directory / "blocks.ts"
    program.write_text("\n".join(lines) + "\n")
    command = ["node", str(COMPILER), *OPTIONS, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=directory)
    return done.stdout + done.stderr

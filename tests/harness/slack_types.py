"""What Slack and we send, held against the types of Slack's packages by the TypeScript compiler.

Blocks and forms against `@slack/types`, lists of channels of the simulated Slack against `@slack/web-api`.
"""

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


def type_errors(
    directory: Path, messages: Sequence[Sequence[Any]], views: Sequence[Any], channels: Sequence[Any] = ()
) -> str:
    """Return what the compiler says about blocks of messages, forms and lists of channels; nothing if they conform."""
    (directory / "node_modules").symlink_to(MODULES)
    (directory / "package.json").write_text('{"type": "module"}')
    lines = [
        'import type { KnownBlock, ModalView } from "@slack/types";',
        'import type { ConversationsListResponse } from "@slack/web-api";',
    ]
    lines += [f"const message{number}: KnownBlock[] = {json.dumps(each)};" for number, each in enumerate(messages)]
    lines += [f"const view{number}: ModalView = {json.dumps(each)};" for number, each in enumerate(views)]
    lines += [f"const list{n}: ConversationsListResponse = {json.dumps(each)};" for n, each in enumerate(channels)]
    lines.append(f"export default {json.dumps([len(messages), len(views)])};")
    program = directory / "blocks.ts"
    program.write_text("\n".join(lines) + "\n")
    command = ["node", str(COMPILER), *OPTIONS, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=directory)
    return done.stdout + done.stderr

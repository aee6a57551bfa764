"""A stateful simulated GitHub over real HTTP, for development and tests.

`python -m tools.codehost --port 9000`, or in process: `handle = serve(CodeHost(app_public_key=...))`.
"""

from tools.codehost.host import CodeHost
from tools.codehost.server import Handle, serve

__all__ = ["CodeHost", "Handle", "serve"]

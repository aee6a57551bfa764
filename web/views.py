"""The base of every page for people."""

from collections.abc import Callable
from typing import ClassVar, cast

from flask import Response, g, request
from flask.views import MethodView

from web.context import PageContext
from web.resuming import KEPT, RESUME, read_kept, refilled


class PageView(MethodView):
    """One page: `get` shows it and changes nothing; `post`, where it has forms, does what they are for.

    Where a form is refused, most show the page again by `get`, with the error and what was entered.
    """

    init_every_request: ClassVar[bool] = False
    path: ClassVar[str]

    def __init__(self, context: PageContext) -> None:
        self.context = context

    def dispatch_request(self, **arguments: str) -> Response:
        """Answer the request. A form that is resumed is shown, filled in as it was left, and does nothing."""
        if request.method != "POST" or RESUME not in request.args or not hasattr(self, "get"):
            return cast("Response", super().dispatch_request(**arguments))
        fields = read_kept(self.context.form_fields(KEPT)[KEPT])
        g.resumed = True
        show: Callable[..., Response] = self.get  # each page with a form shows it
        return refilled(show(**arguments), request.path, fields)

"""The base of every page for people."""

from typing import ClassVar

from flask import Response
from flask.views import MethodView

from web.context import PageContext


class PageView(MethodView):
    """One page: `get` shows it and changes nothing, `post` does what its form is for."""

    init_every_request: ClassVar[bool] = False
    path: ClassVar[str]

    def __init__(self, context: PageContext) -> None:
        self.context = context

    def get(self) -> Response:
        """Show the page."""
        raise NotImplementedError

    def post(self) -> Response:
        """Do what the form of the page is for."""
        raise NotImplementedError

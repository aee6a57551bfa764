"""The base of every page for people."""

from typing import ClassVar

from flask.views import MethodView

from web.context import PageContext


class PageView(MethodView):
    """One page: `get` shows it and changes nothing; `post`, where it has forms, does what they are for."""

    init_every_request: ClassVar[bool] = False
    path: ClassVar[str]

    def __init__(self, context: PageContext) -> None:
        self.context = context

"""Wake-up: send the mails that wait."""

from functools import partial

from jobs import background_thread
from jobs.context import get_context
from services.mail.delivery import send_due


def run() -> None:
    """Begin to send, or go on; returns at once."""
    context = get_context()
    context.begun("mail")
    background_thread.run_in_background("mail", partial(send_due, context.uow_factory))

"""Wake-up: send the mails that wait."""

from functools import partial

from jobs import background_thread
from jobs.context import given
from services.mail.delivery import send_due


def run() -> None:
    """Begin to send, or go on; returns at once."""
    context = given()
    context.begun("mail")
    background_thread.go_on("mail", partial(send_due, context.units))

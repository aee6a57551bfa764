"""Signing up, in and out, confirming an address, and choosing another password.

Mailed links only show a page; its form does what the link is for, under an address without the secret.
"""

from typing import Any

from flask import Response, request

from models.organizations import User
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens, password_sign_in, registration, sessions
from web.desk import Desk, Visitor, go, way_back
from web.problems import at

NOTICES = {
    "verified": "Your e-mail address is confirmed. Sign in to go on.",
    "password": "Your password is changed, and everything that was signed in with the old one is signed out.",
    "out": "You are signed out.",
}
"""What the sign-in page may say above its form, by a name in its address."""
LABELS = {"name": "Your name", "email": "E-mail address", "password": "Password"}
_USED = "This link has been used already, or is too old, or was cut short on its way."
_CONFIRMED = f"{_USED} If you have confirmed the address already, just sign in."


class SignUp:
    """`/sign-up`: an account begins with a mail."""

    path = "/sign-up"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the form."""
        return self.desk.show("sign_up.html", least=self._least())

    def act(self) -> Response:
        """Send the mail; the answer is the same whether the address is known or not."""
        given = self.desk.answers("name", "email", "password")
        try:
            self.desk.require("sign_up", **given)
            self.desk.work(lambda uow, _: registration.sign_up(uow, **given))
        except ServiceError as error:
            again = {"name": given["name"], "email": given["email"], "least": self._least()}
            return self.desk.show_again("sign_up.html", error, LABELS, **again)
        message = (
            f"We have sent a mail to {given['email']}. Open the link in it, which is good for 24 hours, "
            "and give your password once more."
        )
        return self.desk.show("mail_sent.html", 202, message=message, again="/sign-up")

    def _least(self) -> int:
        return self.desk.shape("sign_up").least("password")


class Verify:
    """`/verify`: the mailed link by which an address is confirmed."""

    path = "/verify"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show whose address it is, and ask for the password, while the link is good."""
        mailed = request.args.get("token", "")
        asked = self.desk.work(lambda uow, _: _asked(uow, mailed))
        return self.desk.show("verify.html", mailed=mailed, **asked) if asked else self._spent()

    def act(self) -> Response:
        """Confirm the address, for whoever chose the password; a wrong one leaves the link as it was."""
        given = self.desk.answers("mailed", "password")
        mailed, password = given["mailed"], given["password"]
        asked = self.desk.work(lambda uow, _: _asked(uow, mailed))
        if asked is None:
            return self._spent()
        try:
            self.desk.require("verify_email", token=mailed, password=password)
            self.desk.work(lambda uow, _: registration.verify_email(uow, mailed, password))
        except ServiceError as error:
            if error.code == "not_found":
                return self._spent()
            shown = at("password", error) if error.code == "wrong_credentials" else error
            return self.desk.show_again("verify.html", shown, LABELS, mailed=mailed, **asked)
        return go("/sign-in?notice=verified")

    def _spent(self) -> Response:
        return self.desk.spent(_CONFIRMED, "/sign-up", "Sign up once more, for a new link")


class SignIn:
    """`/sign-in`: leads on to the page that asked for it."""

    path = "/sign-in"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the form, or lead on somebody who is signed in already."""
        back = way_back(request.args.get("next", "/"))
        if self.desk.work(_is_known):
            return go(back)
        return self.desk.show("sign_in.html", back=back, notice=NOTICES.get(request.args.get("notice", "")))

    def act(self) -> Response:
        """Sign in, always under a new session; one that this browser had ends."""
        given = self.desk.answers("email", "password", "next")
        back = way_back(given.pop("next"))

        def sign_in(uow: UnitOfWork) -> Response:
            return self.desk.let_in(password_sign_in.sign_in(uow, **given), uow.now, back)

        try:
            self.desk.require("sign_in", **given)
            page = self.desk.work_as_nobody(sign_in)
        except ServiceError as error:
            shown = at("email", error) if error.code == "wrong_credentials" else error
            return self.desk.show_again("sign_in.html", shown, LABELS, email=given["email"], back=back)
        self.desk.work(_end)
        return page


class SignOut:
    """`/sign-out`."""

    path = "/sign-out"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Ask whether they mean it: to follow a link ends nothing."""
        return self.desk.show("sign_out.html") if self.desk.work(_is_known) else go("/sign-in")

    def act(self) -> Response:
        """End the session, in every process at once."""
        self.desk.answers()
        self.desk.work(_end)
        return self.desk.let_out("/sign-in?notice=out")


class Forgot:
    """`/forgot`: asks for a mail with which another password can be chosen."""

    path = "/forgot"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the form."""
        return self.desk.show("forgot.html")

    def act(self) -> Response:
        """Send the mail, if there is an account; the answer does not tell."""
        given = self.desk.answers("email")
        try:
            self.desk.require("forgot_password", **given)
            self.desk.work(lambda uow, _: password_sign_in.forgot_password(uow, **given))
        except ServiceError as error:
            return self.desk.show_again("forgot.html", error, LABELS, **given)
        message = f"If {given['email']} has an account, we have sent a mail there. Its link is good for an hour."
        return self.desk.show("mail_sent.html", 202, message=message, again="/forgot")


class Reset:
    """`/reset`: the mailed link by which another password is chosen."""

    path = "/reset"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the form, while the link is good."""
        mailed = request.args.get("token", "")
        email = self.desk.work(lambda uow, _: _owner(uow, mailed))
        return self._form(mailed, email) if email else self._spent()

    def act(self) -> Response:
        """Change the password, and have its owner sign in with it."""
        given = self.desk.answers("mailed", "password")
        mailed, password = given["mailed"], given["password"]
        email = self.desk.work(lambda uow, _: _owner(uow, mailed))
        if email is None:
            return self._spent()
        try:
            self.desk.require("reset_password", token=mailed, password=password)
            self.desk.work(lambda uow, _: password_sign_in.reset_password(uow, mailed, password))
        except ServiceError as error:
            if error.code == "not_found":
                return self._spent()
            shown = {"mailed": mailed, "email": email, "least": self._least()}
            return self.desk.show_again("reset.html", error, LABELS, **shown)
        return go("/sign-in?notice=password")

    def _form(self, mailed: str, email: str) -> Response:
        return self.desk.show("reset.html", mailed=mailed, email=email, least=self._least())

    def _spent(self) -> Response:
        return self.desk.spent(_USED, "/forgot", "Ask for a new link")

    def _least(self) -> int:
        return self.desk.shape("reset_password").least("password")


def _asked(uow: UnitOfWork, mailed: str) -> dict[str, Any] | None:
    """Return which address a mailed link is for, and the name that was given with it."""
    token = one_time_tokens.peek(uow, "verify_email", mailed)
    return {"email": token.subject, "name": token.details["name"]} if token else None


def _owner(uow: UnitOfWork, mailed: str) -> str | None:
    """Return the address of the account that a mailed token may change, so that its owner sees whose it is."""
    token = one_time_tokens.peek(uow, "reset_password", mailed)
    user = uow.session.get(User, token.subject) if token else None
    return user.email if user else None


def _end(uow: UnitOfWork, visitor: Visitor | None) -> None:
    if visitor is not None:
        sessions.revoke(uow, visitor.session_id)


def _is_known(_: UnitOfWork, visitor: Visitor | None) -> bool:
    return visitor is not None

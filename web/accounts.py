"""Signing up, in and out, confirming an address, and choosing another password.

A mailed link only shows a page; its form does what the link is for, at an address without the secret.
"""

from typing import Any

from flask import Response, request

from rules import web_addresses
from web.context import INVALID_SESSION, PageContext, add_cookies, allow_opener, redirect_to
from web.fields import filled
from web.notices import leave_notice, take_notice
from web.operations import OperationError
from web.problems import at_field
from web.resuming import KEPT
from web.return_addresses import safe_redirect
from web.views import PageView

NOTICES = {
    "verified": "Your email address is confirmed. Sign in to continue.",
    "password": "Your password has been changed, and you have been signed out everywhere.",
    "out": "You are signed out.",
}
"""Notices of the sign-in page, by their names."""
_LABELS = {"name": "Your name", "email": "Email address", "password": "Password"}
_EXPIRED = "This link has been used, has expired, or is incomplete."


class SignUp(PageView):
    """`/sign-up`: an account begins with an email."""

    path = web_addresses.SIGN_UP

    def get(self) -> Response:
        """Show the form."""
        invited_by = request.args.get("token", "")
        invitation = self.context.mailed_links.find("invitation", invited_by) if invited_by else None
        email = invitation["email"] if invitation else ""
        return self.context.render("sign_up.html", email=email, **self._values(invited_by))

    def post(self) -> Response:
        """Send the email; the answer is the same whether the address has an account or not."""
        given = self.context.form_fields("name", "email", "password", "invitationToken")
        try:
            self.context.call("sign_up", body=filled(given))
        except OperationError as error:
            again = {"name": given["name"], "email": given["email"], **self._values(given["invitationToken"])}
            return self.context.render_form("sign_up.html", error, _LABELS, **again)
        message = f"We sent a link to {given['email']}. Open it within 24 hours and enter your password to confirm it."
        return self.context.render("mail_sent.html", 202, message=message, again=self.path)

    def _values(self, invitation: str) -> dict[str, Any]:
        """Return what the template needs besides the fields; the form is shown to those who may sign up."""
        policy = self.context.sign_up
        return {
            "min_length": self.context.min_length("sign_up", "password"),
            "restriction": policy.summary,
            "invitation": invitation,
            "may_try": policy.mode != "invitation" or bool(invitation),
        }


class Verify(PageView):
    """`/verify`: the mailed link that confirms an address."""

    path = web_addresses.VERIFY

    def get(self) -> Response:
        """Show the address, and request the password, while the link is valid."""
        mailed = request.args.get("token", "")
        link = self.context.mailed_links.find("verify_email", mailed)
        return self.context.render("verify.html", mailed=mailed, link=link) if link else self._expired()

    def post(self) -> Response:
        """Confirm the address with the password of the sign-up; a wrong one leaves the link valid."""
        given = self.context.form_fields("mailed", "password")
        mailed = given["mailed"]
        link = self.context.mailed_links.find("verify_email", mailed)
        if link is None:
            return self._expired()
        body = filled({"token": mailed, "password": given["password"]})
        try:
            self.context.call("verify_email", body=body)
        except OperationError as error:
            if error.code == "not_found":
                return self._expired()
            shown = at_field("password", error) if error.code == "wrong_credentials" else error
            return self.context.render_form("verify.html", shown, _LABELS, mailed=mailed, link=link)
        return self._sign_in(link["email"], given["password"])

    def _sign_in(self, email: str, password: str) -> Response:
        """Sign the new account in with the password that has just been entered."""
        try:
            signed_in = self.context.call("sign_in", body={"email": email, "password": password})
        except OperationError:  # such as after too many failures from this network
            return redirect_to(leave_notice(web_addresses.SIGN_IN, "verified"))
        end_session(self.context)
        return self.context.with_cookies(signed_in, web_addresses.HOME)

    def _expired(self) -> Response:
        message = f"{_EXPIRED} If you have already confirmed your address, sign in."
        return self.context.link_expired(message, (web_addresses.SIGN_UP, "Sign up again to get a new link"))


class SignIn(PageView):
    """`/sign-in`: leads back to the page that required it."""

    path = web_addresses.SIGN_IN

    def get(self) -> Response:
        """Show the form, or lead on a visitor who is signed in already."""
        back = safe_redirect(request.args.get("next", web_addresses.HOME))
        if self.context.find_visitor():
            return redirect_to(back)
        notice = NOTICES.get(take_notice(self.context.guard))
        return _on_the_way(back, self.context.render("sign_in.html", back=back, notice=notice))

    def post(self) -> Response:
        """Begin a new session; the one that this browser had ends."""
        given = self.context.form_fields("email", "password", "next", KEPT)
        back, kept = safe_redirect(given.pop("next")), given.pop(KEPT)
        try:
            signed_in = self.context.call("sign_in", body=filled(given))
        except OperationError as error:
            shown = at_field("email", error) if error.code == "wrong_credentials" else error
            values = {"email": given["email"], "back": back, "kept": kept}
            again = self.context.render_form("sign_in.html", shown, _LABELS, **values)
            return _on_the_way(back, again)
        end_session(self.context)
        if kept and back != web_addresses.HOME:
            page = self.context.resume(back, kept, signed_in.content["sessionToken"])
            return add_cookies(page, signed_in)
        return self.context.with_cookies(signed_in, back)


class SignOut(PageView):
    """`/sign-out`."""

    path = web_addresses.SIGN_OUT

    def get(self) -> Response:
        """Ask for confirmation: following a link ends nothing."""
        if self.context.find_visitor() is None:
            return redirect_to(web_addresses.SIGN_IN)
        return self.context.render("sign_out.html")

    def post(self) -> Response:
        """End the session, in every process at once."""
        self.context.form_fields()
        end_session(self.context)
        return self.context.sign_out_response(leave_notice(web_addresses.SIGN_IN, "out"))


class Forgot(PageView):
    """`/forgot`: requests an email with a link to choose another password."""

    path = web_addresses.FORGOT

    def get(self) -> Response:
        """Show the form."""
        return self.context.render("forgot.html")

    def post(self) -> Response:
        """Send the email if there is an account; the answer does not say."""
        given = self.context.form_fields("email")
        try:
            self.context.call("forgot_password", body=filled(given))
        except OperationError as error:
            return self.context.render_form("forgot.html", error, _LABELS, **given)
        message = f"If {given['email']} has an account, we sent a link to it. It is valid for one hour."
        return self.context.render("mail_sent.html", 202, message=message, again=self.path)


class Reset(PageView):
    """`/reset`: the mailed link that lets its owner choose another password."""

    path = web_addresses.RESET

    def get(self) -> Response:
        """Show the form, while the link is valid."""
        mailed = request.args.get("token", "")
        link = self.context.mailed_links.find("reset_password", mailed)
        return self.context.render("reset.html", **self._values(mailed, link)) if link else self._expired()

    def post(self) -> Response:
        """Change the password, and have its owner sign in with it."""
        given = self.context.form_fields("mailed", "password")
        mailed = given["mailed"]
        link = self.context.mailed_links.find("reset_password", mailed)
        if link is None:
            return self._expired()
        body = filled({"token": mailed, "password": given["password"]})
        try:
            done = self.context.call("reset_password", body=body)
        except OperationError as error:
            if error.code == "not_found":
                return self._expired()
            return self.context.render_form("reset.html", error, _LABELS, **self._values(mailed, link))
        return self.context.with_cookies(done, leave_notice(web_addresses.SIGN_IN, "password"))

    def _values(self, mailed: str, link: Any) -> dict[str, Any]:
        min_length = self.context.min_length("reset_password", "password")
        return {"mailed": mailed, "link": link, "min_length": min_length}

    def _expired(self) -> Response:
        return self.context.link_expired(_EXPIRED, (web_addresses.FORGOT, "Request a new link"))


def _on_the_way(back: str, page: Response) -> Response:
    """Return a page of the sign-in; on the way to a client, that client may have opened the window."""
    return allow_opener(page) if back.startswith(web_addresses.AUTHORIZE) else page


def end_session(context: PageContext) -> None:
    """End the session of this browser, if it still has one that is its visitor's own."""
    if not context.session_token():
        return
    try:
        context.call("sign_out")
    except OperationError as error:
        if error.code not in {*INVALID_SESSION, "impersonation_read_only"}:
            raise

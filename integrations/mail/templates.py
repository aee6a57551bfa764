"""Templates of mails: plain text and simple HTML, rendered from the same paragraphs.

The first link of a mail is its button. Mail programs drop style sheets and images, so the styles stand in the elements.

Mails cannot be abused for advertising: those to an unconfirmed address contain no text typed by others, nor does the
subject of an invitation. Every value is one line, cut, without recognizable addresses, and escaped in HTML.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from string import Formatter
from typing import Any

from rules.plain_text import one_line, without_links

MAX_VALUE_LENGTH = 80
"""Of names and dates."""
MAX_LINE_LENGTH = 500
"""Of links, and of the lines of a list."""
_GROUND = "#ffffff"
_ACCENT = "#0b5cad"
"""Of buttons and links; its contrast with the ground is 6.7 (WCAG 2.2 wants 4.5)."""
_FRAME = (
    f"max-width:36em;margin:0 auto;color:#1b2430;background:{_GROUND};"
    "font:16px/1.5 system-ui,'Segoe UI',Roboto,Arial,sans-serif;overflow-wrap:anywhere"
)
_BUTTON = (
    '<table role="presentation" cellpadding="0" cellspacing="0" border="0" style="margin:24px 0"><tr>'
    f'<td bgcolor="{_ACCENT}" style="border-radius:6px"><a href="{{url}}" style="display:inline-block;color:{_GROUND};'
    f"background:{_ACCENT};border:solid {_ACCENT};border-width:11px 18px;border-radius:6px;font-weight:600;"
    'text-decoration:none">{label}</a></td></tr></table>\n'
)
"""A button that programs without padding of links show too: its cell has the colour, and its border the width."""
_LINK = f'<p style="font-size:14px"><a href="{{url}}" style="color:{_ACCENT}">{{label}}</a></p>\n'
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Link:
    """A paragraph with a link: `field` holds its URL, and `label` may have `{fields}`."""

    label: str
    field: str


@dataclass(frozen=True, slots=True)
class Items:
    """A paragraph that is a list: `field` holds its lines."""

    field: str


@dataclass(frozen=True, slots=True)
class Template:
    """A mail with `{fields}`; it is no longer sent once it has waited for `useful`."""

    subject: str
    paragraphs: tuple[str | Link | Items, ...]
    useful: timedelta

    @property
    def fields(self) -> frozenset[str]:
        """The names of all required values."""
        texts = [self.subject, *(each for each in self.paragraphs if isinstance(each, str))]
        texts += [each.label for each in self.paragraphs if isinstance(each, Link)]
        named = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}
        return frozenset(named | {each.field for each in self.paragraphs if not isinstance(each, str)})


@dataclass(frozen=True, slots=True)
class RenderedMail:
    """A rendered mail."""

    subject: str
    text: str
    html: str


_NOT_YOU = "If you did not request this, you can ignore this email."

TEMPLATES: dict[str, Template] = {
    "verify_email": Template(
        "Confirm your e-mail address",
        (
            "This email address was used to sign up for the Change-Freeze Service.",
            Link("Confirm email address", "url"),
            "The link can be used once and expires in 24 hours. You need the password that was chosen at sign-up.",
            "If you did not sign up, you can ignore this email. No account is created without that password.",
            "To create an account of your own, sign up with a new password.",
        ),
        _DAY,
    ),
    "known_address": Template(
        "You already have an account",
        (
            "This email address was used to sign up for the Change-Freeze Service, but it already has an account.",
            "Nothing was changed.",
            Link("Sign in", "sign_in_url"),
            Link("Forgot your password?", "forgot_url"),
            "If you did not sign up, you can ignore this email.",
        ),
        _DAY,
    ),
    "reset_password": Template(
        "Choose a new password",
        (
            "A password reset was requested for your account at the Change-Freeze Service.",
            Link("Choose a new password", "url"),
            "The link can be used once and expires in one hour. A new password signs you out everywhere.",
            _NOT_YOU,
        ),
        timedelta(hours=1),
    ),
    "password_changed": Template(
        "Your password was changed",
        (
            "The password of your account at the Change-Freeze Service was changed. All other sign-ins have ended.",
            "If this was not you, choose a new password now.",
            Link("Choose a new password", "forgot_url"),
        ),
        _DAY,
    ),
    "change_email": Template(
        "Confirm your new e-mail address",
        (
            "This email address was entered as the new address of an account at the Change-Freeze Service.",
            Link("Confirm email address", "url"),
            "The link can be used once, by the person who is signed in to that account, and expires in one hour.",
            _NOT_YOU,
        ),
        timedelta(hours=1),
    ),
    "taken_address": Template(
        "You already have an account",
        (
            "This email address was entered as the new address of another account at the Change-Freeze Service.",
            "It already has an account. Nothing was changed.",
            Link("Sign in", "sign_in_url"),
            _NOT_YOU,
        ),
        _DAY,
    ),
    "email_change_requested": Template(
        "A new e-mail address was requested",
        (
            "Your account at the Change-Freeze Service is to get the email address {address}, once it is confirmed.",
            "If you did not request this, choose a new password now: it makes the request invalid.",
            Link("Choose a new password", "forgot_url"),
        ),
        _DAY,
    ),
    "email_changed": Template(
        "Your e-mail address was changed",
        (
            "Your account at the Change-Freeze Service now has the email address {address}, and no longer this one.",
            "If you did not request this, have an administrator of your organisation remove the account at once.",
        ),
        7 * _DAY,
    ),
    "invitation": Template(
        "Invitation to the Change-Freeze Service",
        (
            "{inviter} has invited you to join {organization} on the Change-Freeze Service as {role}.",
            Link("View invitation", "url"),
            "The invitation is for this email address only and expires on {expires_at}.",
            "If you did not expect this invitation, you can ignore this email.",
        ),
        7 * _DAY,
    ),
    "notice": Template(
        "{what} ({organization})",
        (
            "In the organisation {organization}:",
            Items("lines"),
            Link("{action}", "url"),
            "You get this email because you are a member of this organisation, and as you chose there.",
            Link("Choose what you are mailed about", "settings_url"),
        ),
        _DAY,
    ),
    "trial_ending": Template(
        "The trial of {organization} ends soon",
        (
            "The trial of the {plan} plan of the organisation {organization} ends on {ends_at}.",
            "Freezes, schedules and granted exceptions go on after it, and nothing is removed.",
            "Features that your plan does not include then cannot be used, and nothing can be added over its limits.",
            Link("Compare the plans", "url"),
        ),
        3 * _DAY,
    ),
    "payment_failed": Template(
        "A payment for {organization} failed",
        (
            "The payment for the {plan} plan of the organisation {organization} failed.",
            "It will be tried again. The plan goes on until {ends_at}: pay or change the payment method before then.",
            "Freezes and schedules go on in any case, and nothing is removed.",
            Link("Open the plan", "url"),
        ),
        7 * _DAY,
    ),
    "grace_ending": Template(
        "The plan of {organization} ends soon",
        (
            "The {plan} plan of the organisation {organization} is not paid, and ends on {ends_at}.",
            "Freezes, schedules and granted exceptions go on after it, and nothing is removed.",
            "Features that your plan does not include then cannot be used, and nothing can be added over its limits.",
            Link("Open the plan", "url"),
        ),
        3 * _DAY,
    ),
    "webhook_disabled": Template(
        "A webhook of {organization} was disabled",
        (
            "The webhook {webhook} of the organisation {organization} was disabled, {why}.",
            "Nothing is sent to it any more. Repair its endpoint, and enable the webhook again.",
            Link("Open the webhook", "url"),
        ),
        7 * _DAY,
    ),
    "organization_deleted": Template(
        "{organization} has been deleted",
        (
            "{by} deleted the organisation {organization} on {deleted_at}.",
            "Its freezes have ended, and its API keys no longer work.",
            "Its rulesets are being removed from GitHub. We will email you if any of them cannot be removed.",
            "All data of the organisation will be erased on {purged_at}.",
        ),
        7 * _DAY,
    ),
    "rules_left": Template(
        "Action required: remove the rulesets of {organization}",
        (
            "The organisation {organization} was deleted, but these rulesets could not be removed from GitHub:",
            Items("left"),
            "They require a check that is no longer updated, so pull requests stay blocked until you remove them.",
            "You find them on GitHub in the settings of the repository or organisation, under Rules, Rulesets.",
        ),
        14 * _DAY,
    ),
}


def render(template: str, values: Mapping[str, Any]) -> RenderedMail:
    """Return the rendered mail. Raise KeyError if the template or a value is missing."""
    chosen = TEMPLATES[template]
    plain: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    links = {each.field for each in chosen.paragraphs if isinstance(each, Link)}
    for name, value in values.items():
        if isinstance(value, list):
            lists[name] = [without_links(one_line(str(each), MAX_LINE_LENGTH)) for each in value]
        elif name in links:
            plain[name] = one_line(str(value), MAX_LINE_LENGTH)
        else:
            plain[name] = without_links(one_line(str(value), MAX_VALUE_LENGTH))
    subject = chosen.subject.format(**plain)
    return RenderedMail(
        subject,
        "\n\n".join(_as_text(each, plain, lists) for each in chosen.paragraphs) + "\n",
        _page(subject, chosen.paragraphs, plain, lists),
    )


def _as_text(paragraph: str | Link | Items, values: Mapping[str, str], lists: Mapping[str, list[str]]) -> str:
    match paragraph:
        case Link():
            return f"{paragraph.label.format(**values)}:\n{values[paragraph.field]}"
        case Items():
            return "\n".join(f"- {each}" for each in lists[paragraph.field])
        case _:
            return paragraph.format(**values)


def _page(
    subject: str, paragraphs: Sequence[str | Link | Items], values: Mapping[str, str], lists: Mapping[str, list[str]]
) -> str:
    """Return the mail as HTML."""
    main = next((each for each in paragraphs if isinstance(each, Link)), None)
    return "".join(
        [
            f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(subject)}</title>\n',
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light"></head>\n',
            f'<body style="margin:0;padding:24px 16px;background:{_GROUND}">\n<div lang="en" style="{_FRAME}">\n',
            *(_as_html(each, values, lists, is_button=each is main) for each in paragraphs),
            "</div>\n</body>\n</html>\n",
        ]
    )


def _as_html(
    paragraph: str | Link | Items, values: Mapping[str, str], lists: Mapping[str, list[str]], *, is_button: bool
) -> str:
    escaped = {name: html.escape(value) for name, value in values.items()}
    match paragraph:
        case Link():
            shape = _BUTTON if is_button else _LINK
            return shape.format(url=escaped[paragraph.field], label=html.escape(paragraph.label).format(**escaped))
        case Items():
            return "<ul>" + "".join(f"<li>{html.escape(each)}</li>" for each in lists[paragraph.field]) + "</ul>\n"
        case _:
            return f"<p>{html.escape(paragraph, quote=False).format(**escaped)}</p>\n"

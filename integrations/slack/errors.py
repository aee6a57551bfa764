"""Errors of Slack, by what can be done about them."""

DEAD_TOKEN = frozenset({"invalid_auth", "token_revoked", "token_expired", "account_inactive", "not_authed"})
UNREACHABLE_CHANNEL = frozenset({"channel_not_found", "not_in_channel", "is_archived", "restricted_action"})
REFUSED_CONTENT = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"})
LATER = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)


class SlackError(Exception):
    """Slack refused a call, and would again. `code` is Slack's word, such as `no_text`."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or f"Slack answered {code}")
        self.code = code


class SlackTokenError(SlackError):
    """The token is no longer accepted: the App was uninstalled, or the token revoked."""


class SlackChannelError(SlackError):
    """The channel cannot be reached: it is gone, archived, restricted, or private without our bot."""


class SlackScopeError(SlackError):
    """The token lacks a scope: the App has to be installed again."""

    def __init__(self, needed: str) -> None:
        super().__init__("missing_scope", f"Slack requires the scope {needed or '(not named)'}")
        self.needed = needed


class SlackContentError(SlackError):
    """Slack does not accept blocks or text: a mistake of ours."""


class SlackUnavailableError(SlackError):
    """Slack did not respond, failed, or limits us: the same call may succeed later.

    A message may have been posted all the same. `retry_after` are the seconds that Slack asks to wait, if it says so.
    """

    def __init__(self, code: str, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(code, message)
        self.retry_after = retry_after


def error_of(code: str, needed: str = "") -> SlackError:
    """Return the error for Slack's word."""
    if code in DEAD_TOKEN:
        return SlackTokenError(code)
    if code in UNREACHABLE_CHANNEL:
        return SlackChannelError(code)
    if code == "missing_scope":
        return SlackScopeError(needed)
    if code in REFUSED_CONTENT:
        return SlackContentError(code)
    return SlackUnavailableError(code) if code in LATER else SlackError(code)

"""Alerts about stops: one that does not end, and one that people ended although a freeze needed it."""

from rules.web_addresses import REPOSITORY
from services.verdicts.lasting_stops import BY_HAND, LASTING, REFUSED, STOPS, UNNEEDED_SINCE

_NOT_ENDED = (
    "GitHub still refuses every merge into branches of %s, by a stop that no freeze needs any more. The service tries "
    f"again and again to end it. {BY_HAND}"
)
_REFUSED = (
    "People disabled or deleted the ruleset “Change freeze: frozen branches” of %s at GitHub, and so ended its stop: "
    "branches of a freeze are open, and `blockedAt` of the freeze is null, until their checks are written. The freezes "
    "in force get no other stop."
)


def _alert(kind: str, severity: str, since: str, message: str, condition: str) -> str:
    page = REPOSITORY.removesuffix("{id}")
    return f"""
    SELECT 'att_' || left(encode(sha256(convert_to('{kind} ' || place.id, 'UTF8')), 'hex'), 26),
           '{kind}', '{severity}', {since},
           jsonb_build_object('type', 'repository', 'id', place.id, 'name', place.owner || '/' || place.name),
           format('{message}', place.owner || '/' || place.name),
           jsonb_build_object('label', 'Open the repository', 'url', CAST(:web AS text) || '{page}' || place.id)
    FROM {STOPS} WHERE s.organization_id = :organization AND {condition}
    """  # noqa: S608 - constants of ours


def alerts_of_stops() -> str:
    """Return the query, with the columns of all sources and the parameters `organization`, `now` and `web`."""
    not_ended = _alert("stop_not_ended", "critical", UNNEEDED_SINCE, _NOT_ENDED, LASTING)
    refused = _alert("stop_refused", "warning", "s.stop_refused_at", _REFUSED, REFUSED)
    return f"{not_ended} UNION ALL {refused}"

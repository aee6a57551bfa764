"""Alerts about stops: one that does not end, and one that people ended although a freeze needed it."""

from rules.web_addresses import REPOSITORIES, REPOSITORY
from services.verdicts.lasting_stops import PLACES, PlacesOfStops, by_hand

_NOT_ENDED = (
    "GitHub still refuses every merge into branches of %s, by a stop that no freeze needs any more. The service tries "
    "again and again to end it. "
)
_REFUSED = (
    "People disabled or deleted the ruleset “Change freeze: frozen branches” of %s at GitHub, and so ended its stop: "
    "branches of a freeze are open, and `blockedAt` of the freeze is null, until their checks are written. The freezes "
    "in force get no other stop."
)


def _alert(of: PlacesOfStops, kind: str, severity: str, since: str, message: str, condition: str) -> str:
    if of.level == "repository":
        thing, label, page = "place.id", "Open the repository", f"'{REPOSITORY.removesuffix('{id}')}' || place.id"
    else:
        thing, label, page = f"{of.row}.organization_id", "Open the repositories", f"'{REPOSITORIES}'"
    return f"""
    SELECT 'att_' || left(encode(sha256(convert_to('{kind} ' || {of.key}, 'UTF8')), 'hex'), 26),
           '{kind}', '{severity}', {since},
           jsonb_build_object('type', '{of.level}', 'id', {thing}, 'name', {of.name}),
           format('{message}', {of.name}),
           jsonb_build_object('label', '{label}', 'url', CAST(:web AS text) || {page})
    FROM {of.rows} WHERE {of.row}.organization_id = :organization AND {condition}
    """  # noqa: S608 - constants of ours


def alerts_of_stops() -> str:
    """Return the query, with the columns of all sources and the parameters `organization`, `now` and `web`."""
    found: list[str] = []
    for of in PLACES:
        not_ended = _NOT_ENDED + by_hand(of.level)
        found.append(_alert(of, "stop_not_ended", "critical", of.unneeded_since, not_ended, of.lasting))
        found.append(_alert(of, "stop_refused", "warning", f"{of.row}.stop_refused_at", _REFUSED, of.refused))
    return " UNION ALL ".join(found)

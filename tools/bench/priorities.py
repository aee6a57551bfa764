"""What is blocked first: 1,000 repositories, 10,000 open heads, GitHub at 50 ms a call, within its limits.

Each repository has ten heads, as an organisation's have: approved ones, such that wait for a review, drafts. In 40 of
them a pull request waits to merge by itself, in 30 one stands in a merge queue (its head and that of its group): these
100 heads are the most mergeable, and lie scattered among the others. One freeze covers everything. Times run from the
request to the moment at which GitHub has taken a head's `failure`; one worker.

**Points** (GitHub's documented limits: points a minute, requests at once). Aims: the 100 most mergeable within 3 s, all
as soon as the points allow, at most 0.07 calls per head, and no call refused. Beside it, in the same run and under the
same limits: a loop of one REST call per head, which waits as long as GitHub says. It writes 200 heads; the rest is
computed from its time per call and its pauses.

**Content** (80 checks a minute and 500 an hour, each alias of a mutation counted: what GitHub's limits could mean at
worst). All 10,000 heads would take 20 hours, so three minutes are measured: the most mergeable have to come first, at
least 90 % of the minutes' budget has to be used, and no call may be refused. Once the counting of
content is configured, and once the service has to learn it (from one refusal).
"""

import time
from dataclasses import dataclass
from typing import Any

from integrations.github import CheckWrite, ErrorKind, GitHubError
from rules.freezes.merge_rank import AUTO_MERGE
from tools.bench.seeding import CHECK, SUCCESS, Account, Json, rank_of
from tools.bench.servers import machine
from tools.bench.stack import INSTALLATION, LOGIN, SCALE, Stack, scaled, serving, wait_for_rest, warm
from tools.bench.writes import Writes, counted, freeze

LATENCY_MS = 50
PER_REPOSITORY = 10
QUEUES, AUTO_MERGES, OTHERS = scaled(30), scaled(40), scaled(930)
LOOPED = scaled(200)
PAUSE = 60.0
CONTENT_MINUTES = 3 if SCALE == 1 else 1
CONTENT_PER_MINUTE = 80
POINTS = {"latencyMs": LATENCY_MS, "secondaryLimits": True}
CONTENT = {**POINTS, "contentLimits": True, "contentCountsAliases": True}
BUILD = "ci/build"
"""A check that never comes, so that nothing merges by itself before the freeze."""


def main() -> None:
    """Measure and print."""
    total = (QUEUES + AUTO_MERGES + OTHERS) * PER_REPOSITORY
    print(f"{total} heads in {total // PER_REPOSITORY} repositories, {LATENCY_MS} ms a call ({machine()})")
    with serving([organization()], settings=POINTS) as stack:
        measure_points(stack)
        measure_loop(stack, total)
    for counting in ("aliases", "learn"):
        environment = {"GITHUB_CONTENT_LIMIT": counting}
        with serving([organization()], settings=CONTENT, environment=environment) as stack:
            measure_content(stack, counting)


def organization() -> Account:
    """Return the organisation: repositories with a pull request that is about to merge lie between the others."""
    before = OTHERS // 2
    repositories = [
        _repository("early-{}", before, []),
        _repository("auto-{}", AUTO_MERGES, [{"autoMerge": True, "reviewDecision": "APPROVED"}]),
        _repository("between-{}", OTHERS // 4, []),
        _repository("queue-{}", QUEUES, [{"queued": True, "groupChecks": SUCCESS, "reviewDecision": "APPROVED"}]),
        _repository("late-{}", OTHERS - before - OTHERS // 4, []),
    ]
    return Account(LOGIN, INSTALLATION, repositories)


def _repository(name: str, count: int, special: list[Json]) -> Json:
    """Return so many repositories with ten heads each, those of the `special` pull requests included."""
    queued = any("queued" in each for each in special)
    mix = [
        *({**each, "checks": {**SUCCESS, **({BUILD: "success"} if queued else {})}} for each in special),
        {"count": PER_REPOSITORY - 7 - len(special) - queued, "reviewDecision": "APPROVED"},
        {"count": 1},
        {"count": 4, "reviewDecision": "REVIEW_REQUIRED"},
        {"count": 2, "draft": True, "reviewDecision": "REVIEW_REQUIRED"},
    ]
    made: Json = {
        "name": name,
        "count": count,
        "requiredChecks": {"main": CHECK},
        "pullRequests": [{"checks": SUCCESS, **each} for each in mix],
    }
    if special:
        made["requiredChecks"] = {"main": CHECK, "mai*": BUILD}
    if queued:
        made["mergeQueues"] = {"main": "ALLGREEN"}
    return made


@dataclass(frozen=True, slots=True)
class Heads:
    """The open heads at GitHub, by commit."""

    listed: list[Json]

    @property
    def all(self) -> set[str]:
        """Return every commit."""
        return {head["headSha"] for head in self.listed}

    @property
    def most_mergeable(self) -> set[str]:
        """Return those that are queued, or merge by themselves."""
        return {head["headSha"] for head in self.listed if rank_of(head) <= AUTO_MERGE}


def heads_of(stack: Stack) -> Heads:
    """Return what is open now."""
    return Heads(stack.control("GET", "/checks?details=true")["heads"])


def measure_points(stack: Stack) -> None:
    """Measure a freeze under the limits of points and of requests at once, and print."""
    warm(stack, "acme/early-1")
    heads, writes = heads_of(stack), Writes(stack)
    first, everything = heads.most_mergeable, heads.all
    writes.look()
    with counted(stack) as calls:
        _, since = freeze(stack, LOGIN, "Measuring what is blocked first")
        to_first = writes.wait("failure", since, first)
        to_last = writes.wait("failure", since, everything)
    earlier = [at for head, at in writes.first("failure", since, everything - first).items() if at < since + to_first]
    print("Points and requests at once are limited")
    print(f"  {len(first)} most mergeable heads blocked after {to_first:.1f} s (aim 3); {len(earlier)} others before")
    print(f"  all {len(everything)} blocked after {to_last:.1f} s")
    print(f"  {calls['total'] / len(everything):.3f} calls per head (aim 0.07), {calls['refused']} refused (aim 0)")


def measure_loop(stack: Stack, total: int) -> None:
    """Measure one REST call per head under the same limits, as far as `LOOPED`, and print what all would take."""
    wait_for_rest(stack)
    client, start_time, pauses, spent = stack.as_app(), time.monotonic(), 0, 0.0
    heads = sorted(heads_of(stack).listed, key=rank_of)[:LOOPED]
    hundredth = written = 0.0
    for number, head in enumerate(heads, 1):
        while True:
            called = time.monotonic()
            pause = _write_one(client, head)
            spent += time.monotonic() - called
            if pause is None:
                break
            if not pauses:
                written = number - 1
            pauses += 1
            time.sleep(pause)
        if number == min(100, len(heads)):
            hundredth = time.monotonic() - start_time
    took = time.monotonic() - start_time
    each = spent / (len(heads) + pauses)
    window = written or len(heads)
    whole = total * each + (total / window - 1) * PAUSE if pauses else total * each
    print("Beside it, a loop of one REST call per head")
    print(f"  first {min(100, len(heads))} after {hundredth:.1f} s, {len(heads)} after {took:.0f} s ({pauses} refused)")
    print(
        f"  all {total} would take {whole / 60:.0f} min: {each * 1000:.0f} ms a call, {PAUSE:.0f} s after {window:.0f}"
    )


def _write_one(client: Any, head: Json) -> float | None:
    """Write one check; return the seconds to wait when GitHub has refused it."""
    owner, _, name = head["repository"].partition("/")
    write = CheckWrite("", CHECK, head["headSha"], "failure", "Frozen", "By the loop beside it", "loop")
    error: GitHubError | None = client.create_check_rest(owner, name, write).error
    if error is None:
        return None
    if error.kind is not ErrorKind.SECONDARY_RATE_LIMIT:
        raise error
    return error.retry_after or PAUSE


def measure_content(stack: Stack, counting: str) -> None:
    """Measure the first minutes of a freeze when created content is limited as well, and print."""
    wait_for_rest(stack)
    heads, writes = heads_of(stack), Writes(stack)
    first, budget = heads.most_mergeable, CONTENT_PER_MINUTE * CONTENT_MINUTES
    writes.look()
    before = len(writes.all)
    with counted(stack) as calls:
        _, since = freeze(stack, LOGIN, "Measuring a scarce budget")
        time.sleep(CONTENT_MINUTES * 60)
        writes.look()
    written = [write.head for write in writes.all[before:]]
    blocked = writes.first("failure", since, first)
    leading = written[: min(CONTENT_PER_MINUTE, len(first))]
    early = sum(head in first for head in leading)
    in_first_minute = sum(write.at <= since + 60 for write in writes.all[before:])
    print(f"Content is limited too, each alias counted; the service is configured as `{counting}`")
    print(f"  {in_first_minute} written in the first minute; of the first {len(leading)}, {early} were most mergeable")
    print(f"  {len(blocked)} of {len(first)} most mergeable blocked, the last after {_last(blocked) - since:.0f} s")
    possible = min(budget, len(heads.all))
    print(f"  {len(written)} written in {CONTENT_MINUTES} min: {len(written) / possible:.0%} of the budget (aim 90 %)")
    print(f"  {calls['refused']} calls refused (aim {0 if counting == 'aliases' else 1})")


def _last(times: dict[str, float]) -> float:
    return max(times.values(), default=float("nan"))


if __name__ == "__main__":
    main()

"""What a lease of stops does: the steps of its places, and what of them can be written together.

`stops.py` says what a stop is, and which steps there are.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from typing import Any

from sqlalchemy import Row, select

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationClient
from integrations.github.ruleset_batches import RULESETS_PER_REQUEST, RulesetBody
from models.enforcement import FrozenBranchRuleset, OrganizationStop
from rules.batches import batches
from rules.rate_budget import GitHubLimits
from rules.rulesets.frozen_branches import stop_of
from rules.web_addresses import WebOrigin
from services.core.database_identity import is_confirmed
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.core.work_queue import Lease, LeaseLostError
from services.enforcement.exempt_heads import ExemptHead, exempt_heads, key_of, record_passed, write_contexts
from services.enforcement.frozen_branches import (
    ORGANIZATION_STOPS,
    RulesetWork,
    bring_up_to_date,
    find,
    record_failure,
)
from services.enforcement.frozen_ruleset_records import (
    audit_change,
    begin_own_stops,
    branch_ids,
    probe_named,
    recall,
    record_intent,
    record_loss,
    record_refusal,
    record_unchanged,
    record_written,
    withdraw_intent,
)
from services.enforcement.ruleset_facts import Model, RulesetFacts, read_facts, read_organization_facts
from services.enforcement.stop_steps import READ_AGAIN, StopStep, next_step
from services.enforcement.waiting_heads import write_waiting_again
from services.freezes.completion import record_enforcement_on, record_releases
from services.github_access.concurrency import in_parallel
from services.github_access.failures import WithheldError


@dataclass(frozen=True, slots=True)
class _Write:
    """A ruleset that has to be written: what it is, and what it has to be."""

    facts: RulesetFacts
    ids: tuple[int, str] | None
    """None: it has to be created."""
    context: str | None
    before: dict[str, Any] | None
    after: dict[str, Any]


@dataclass(slots=True)
class StopBatch:
    """The work of one lease: rulesets of repositories, or of one organisation."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    client: InstallationClient
    lease: Lease
    rows: dict[str, Row[Any]] = field(init=False)
    """By key of the ruleset."""
    finished: defaultdict[timedelta, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The rulesets that the current transaction releases, by when they are looked at again."""
    exempt: dict[str, list[ExemptHead]] = field(default_factory=dict)
    """By key of the ruleset: the commits that must get the context of its stop."""
    lost: list[str] = field(default_factory=list)
    """The ids of the branches whose stop people have ended or loosened, or that an organisation's names no more."""

    def __post_init__(self) -> None:
        self.rows = {row.key: row for row in self.lease.rows}

    @property
    def _model(self) -> Model:
        return OrganizationStop if self.lease.queue is ORGANIZATION_STOPS else FrozenBranchRuleset

    def run(self) -> None:
        """Do what each ruleset needs: first what no call needs, then what can be written together, then the rest."""
        due, ended = self._look()
        self._write_again(ended)
        self._let_in_late()
        if self._model is FrozenBranchRuleset:
            self._write_many(due)
        for facts in due:
            if facts.key in self.rows:
                self._write_alone(facts)

    def _write_many(self, due: Sequence[RulesetFacts]) -> None:
        """Write the rulesets of repositories that can be written together."""
        known = [each for each in due if each.node_id is not None]
        self._write_together(self._plan_known(known, self._read_bodies(known)))
        self._write_together(self._plan_new([each for each in due if each.is_absent and each.stop is None]))

    def _look(self) -> tuple[list[RulesetFacts], list[RulesetFacts]]:
        """Return the rulesets that have to be read at GitHub, and those whose stop ended; release the others."""
        due, ended, others = [], [], []
        with self._transaction() as uow:
            confirmed = is_confirmed(uow.session)
            for facts in self._read(uow, self.rows):
                begin_own_stops(uow, facts)
                step = next_step(facts, uow.now, uow.ports[GitHubLimits].ruleset_delay)
                if step.action == "write":
                    due.append(facts)
                elif step.action == "write_again":
                    ended.append(facts)
                else:
                    others.append((facts, step))
            self._note_exempt(uow, [(facts, facts.stop) for facts, _step in others])
            resting = [(facts, step) for facts, step in others if facts.key not in self.exempt]
            for facts, step in resting:
                self._take(uow, facts, step)
            probe_named(uow, [facts for facts, step in resting if step.action == "read"])
        if not confirmed:
            for facts in due:
                self._fail(facts, WithheldError())
            due.clear()
        return due, ended

    def _take(self, uow: UnitOfWork, facts: RulesetFacts, step: StopStep) -> None:
        """Take a step that needs no call, and release the ruleset."""
        row = facts.row(uow)
        if step.action == "forget":
            row.may_stop = False
            if isinstance(row, OrganizationStop):
                recall(uow, row.id, kept=())
        elif step.action == "count":
            row.stop_in_force_at = uow.now
        self._release(facts, step.wait)

    @contextmanager
    def _transaction(self, keys: Collection[str] | None = None) -> Iterator[UnitOfWork]:
        """Open a transaction under the lease of some rulesets (None: all); those that it has lost are left to others.

        It reads their rows with one statement, and releases at its end what is finished. Each call that writes renews
        the lease of all.
        """
        with self.uow_factory.open(system_caller(self.lease.rows[0].organization_id)) as uow:
            wanted = [key for key in (self.rows if keys is None else keys) if key in self.rows]
            held = self.lease.renew(uow, wanted)
            for lost in set(wanted) - held:
                del self.rows[lost]
            if not self.rows:
                raise LeaseLostError
            key = FrozenBranchRuleset.repository_id if self._model is FrozenBranchRuleset else OrganizationStop.id
            kept = uow.session.scalars(select(self._model).where(key.in_(held))).all()
            yield uow
            uow.session.flush()
            for wait, ids in self.finished.items():
                self.lease.release(uow, ids, due_at=uow.now + wait)
            self.finished.clear()
            del kept

    def _release(self, facts: RulesetFacts, wait: timedelta) -> None:
        """Have a ruleset released by this transaction, and looked at again after that time."""
        self.finished[wait].append(facts.key)
        self.rows.pop(facts.key, None)

    def _fail(self, facts: RulesetFacts, error: GitHubError) -> None:
        record_failure(self.uow_factory, self.lease, self.rows.pop(facts.key), error)

    def _write_again(self, ended: Sequence[RulesetFacts]) -> None:
        """Have the checks written again for which GitHub merges by itself, now that stops are off.

        In a transaction of its own, since branches are locked before rulesets; to do it twice does no harm.
        """
        if not ended:
            return
        freed = sorted({repository_id for facts in ended for repository_id in facts.freed})
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            write_waiting_again(uow, freed)
        with self._transaction([facts.key for facts in ended]) as uow:
            for facts in ended:
                if facts.key in self.rows:
                    row = facts.row(uow)
                    row.stop_ending_at = None
                    if isinstance(row, OrganizationStop):
                        row.freed_ids = []
                    self._release(facts, timedelta(0))
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            record_releases(uow, freed)

    def _let_in_late(self) -> None:
        """Let commits in that are exempt since the stop is on, and look again soon."""
        waiting = [heads[0].facts for heads in self.exempt.values()]
        if waiting:
            self._let_in()
            with self._transaction([facts.key for facts in waiting]):
                for facts in waiting:
                    if facts.key in self.rows:
                        self._release(facts, READ_AGAIN)

    def _let_in(self) -> None:
        """Write the contexts of stops on the commits that are exempt; what fails is tried when it is looked at next."""
        heads = [head for noted in self.exempt.values() for head in noted]
        self.exempt.clear()
        for chunk in batches(heads, self.github.settings.checks_per_mutation):
            passed = write_contexts(self.client, chunk, self.uow_factory.ports[WebOrigin].url)
            with self._transaction() as uow:
                record_passed(uow, [head for head in passed if head.facts.key in self.rows])

    def _read_bodies(self, known: Sequence[RulesetFacts]) -> dict[str, dict[str, Any]]:
        """Return, by key, the rulesets that can be written together with others."""
        requests = batches([str(each.node_id) for each in known], RULESETS_PER_REQUEST)
        read = chain.from_iterable(in_parallel(self._read_request, requests))
        found: dict[str, dict[str, Any]] = {}
        for facts, body in zip(known, read, strict=True):
            if isinstance(body, RulesetBody):
                if body.complete:
                    found[facts.key] = body.body
            elif body.kind is not ErrorKind.NOT_FOUND:
                self._fail(facts, body)
        return found

    def _read_request(self, node_ids: Sequence[str]) -> Sequence[RulesetBody | GitHubError]:
        """Return the rulesets that one request reads, or errors."""
        try:
            return self.client.read_ruleset_bodies(node_ids)
        except GitHubError as error:
            return [error] * len(node_ids)

    def _read_again(self, uow: UnitOfWork, known: Sequence[RulesetFacts]) -> list[RulesetFacts]:
        """Return the facts of what is still held as they are now: a freeze may have started or ended since.

        One that starts later waits for this transaction, after which no branch counts as stopped that will not be.
        """
        return self._read(uow, [facts.key for facts in known if facts.key in self.rows])

    def _read(self, uow: UnitOfWork, keys: Collection[str]) -> list[RulesetFacts]:
        """Return the facts of rulesets; where no administrator authorises them any more, ours has to be empty."""
        found = (read_facts if self._model is FrozenBranchRuleset else read_organization_facts)(uow, keys)
        nothing: dict[str, Any] = {"frozen": (), "needs_stop": False, "left": "no", "leaving": frozenset()}
        return [each if self.rows[each.key].authorized else replace(each, **nothing) for each in found]

    def _plan_known(self, known: Sequence[RulesetFacts], found: Mapping[str, dict[str, Any]]) -> list[_Write]:
        """Return what has to be written of the rulesets that were found, in which nothing but ours is."""
        writes: list[_Write] = []
        if found:
            with self._transaction(found) as uow:
                for facts in self._read_again(uow, [each for each in known if each.key in found]):
                    writes += self._plan(uow, facts, found[facts.key])
                self._note_exempt(uow, [(write.facts, write.context) for write in writes])
        self._record_lost()
        return writes

    def _compare(self, uow: UnitOfWork, facts: RulesetFacts, found: Mapping[str, Any] | None) -> RulesetFacts:
        """Record that people have ended a stop that was in force, or loosened it; return what is so then."""
        stop = stop_of(facts.stop, self.github.settings.app_id)
        if stop is None or facts.stop_in_force_at is None:
            return facts
        if found is None or found["enforcement"] != "active":
            record = record_refusal
        elif not facts.is_held(found, stop):
            record = record_loss
        else:
            return facts
        self.lost += [branch.id for branch in facts.frozen]
        return record(uow, facts)

    def _record_lost(self) -> None:
        """Record that freezes are not blocked any more which a stop does not hold any more, before it is written.

        In a transaction of its own, since freezes are locked before rulesets.
        """
        if self.lost:
            with self.uow_factory.open(SYSTEM_CALLER) as uow:
                record_enforcement_on(uow, self.lost)
            self.lost.clear()

    def _plan_new(self, absent: Sequence[RulesetFacts]) -> list[_Write]:
        """Return what has to be created, with its intent recorded."""
        writes: list[_Write] = []
        if not absent:
            return writes
        with self._transaction([facts.key for facts in absent]) as uow:
            for facts in self._read_again(uow, absent):
                if facts.frozen:
                    context = facts.next_stop()
                    wanted = facts.ruleset(stop_of(context, self.github.settings.app_id))
                    record_intent(uow, facts, wanted, context)
                    writes.append(_Write(facts, None, context, None, wanted))
            self._note_exempt(uow, [(write.facts, write.context) for write in writes])
        return writes

    def _write_together(self, writes: Sequence[_Write]) -> None:
        """Write rulesets, and record what was written, and what was not."""
        self._let_in()  # leases may end meanwhile
        writes = [write for write in writes if write.facts.key in self.rows]
        if not writes:
            return
        sent = in_parallel(self._send_request, batches(writes, RULESETS_PER_REQUEST))
        results = list(zip(writes, chain.from_iterable(sent), strict=True))
        with self._transaction([write.facts.key for write in writes]) as uow:
            for write, result in results:
                if write.facts.key not in self.rows:
                    continue
                if not isinstance(result, GitHubError):
                    self._record_written(uow, write, result)
                elif not result.maybe_applied:
                    withdraw_intent(uow, write.facts, writing=None)
            written = [write.facts for write, result in results if not isinstance(result, GitHubError)]
            probe_named(uow, [facts for facts in written if not facts.needs_stop])
        for write, result in results:
            name_taken = write.ids is None and isinstance(result, GitHubError) and result.kind is ErrorKind.REJECTED
            if isinstance(result, GitHubError) and not name_taken and write.facts.key in self.rows:
                self._fail(write.facts, result)

    def _send_request(self, writes: Sequence[_Write]) -> Sequence[tuple[int, str] | GitHubError]:
        """Send the writes of one request, all of new rulesets or all of known ones; return their ids, or errors."""
        known = [(write.ids, write.after) for write in writes if write.ids is not None]
        try:
            if known:
                errors = self.client.write_rulesets([(ids[1], after) for ids, after in known])
                return [error or ids for (ids, _after), error in zip(known, errors, strict=True)]
            new = [(self.rows[write.facts.key].repository_node_id, write.after) for write in writes]
            created = self.client.create_rulesets(new)
            return [each if isinstance(each, GitHubError) else (each.ruleset_id, each.node_id) for each in created]
        except GitHubError as error:
            return [error] * len(writes)

    def _plan(self, uow: UnitOfWork, facts: RulesetFacts, found: dict[str, Any]) -> list[_Write]:
        """Return what has to be written, with its intent recorded; if GitHub has it already, release the repository."""
        facts = self._compare(uow, facts, found)
        context = facts.next_stop()
        ids = (int(facts.ruleset_id or 0), str(facts.node_id))
        stop = stop_of(context, self.github.settings.app_id)
        write = _Write(facts, ids, context, found, facts.restored(found, stop))
        if write.before == write.after:
            record_unchanged(uow, facts, ids, stop=context)
            self._release(facts, READ_AGAIN)
            return []
        record_intent(uow, facts, stop=context)
        return [write]

    def _note_exempt(self, uow: UnitOfWork, stops: Sequence[tuple[RulesetFacts, str | None]]) -> None:
        """Note the commits that must get these contexts of stops, and have not."""
        stopped = [(facts, context) for facts, context in stops if context is not None]
        found = exempt_heads(uow, [facts for facts, _context in stopped]) if stopped else {}
        for facts, context in stopped:
            passed = facts.stop_passed if context == facts.stop else frozenset()
            commits = found.get(facts.key, {}).items()
            heads = [ExemptHead(facts, context, *each) for each in commits if key_of(each[0]) not in passed]
            if heads:
                self.exempt[facts.key] = heads

    def _record_written(self, uow: UnitOfWork, write: _Write, ids: tuple[int, str]) -> None:
        facts, place = write.facts, self.rows[write.facts.key].place
        record_written(uow, facts, ids, stop=write.context, changed=True)
        action = "ruleset.created" if write.before is None else "ruleset.updated"
        audit_change(uow, place, facts, ids[0], (action, write.before, write.after))
        self._release(facts, uow.ports[GitHubLimits].ruleset_delay)

    def _write_alone(self, facts: RulesetFacts) -> None:
        """Write one ruleset: of an organisation, or a new one, or one to which people have added something."""
        row = self.rows[facts.key]
        access = (
            self.client.repository_rulesets(row.owner, row.name)
            if facts.level == "repository"
            else self.client.organization_rulesets(row.account)
        )
        work = RulesetWork(self.uow_factory, self.lease, row, access, self.github.settings.app_id)
        try:
            with self.client.shared_deadline():
                found, taken = find(access, facts)
            with work.transaction() as uow:
                facts = self._compare(uow, facts, found)
            self._record_lost()
            with work.transaction() as uow:
                [facts] = self._read_again(uow, [facts])
                context = facts.next_stop()
                record_intent(uow, facts, facts.writing, context)
                self._note_exempt(uow, [(facts, context)])
                if facts.level == "organization":  # some may be frozen, and not have a stop of their own yet
                    self.lost += branch_ids(uow, facts.named - facts.wanted)
            self._record_lost()
            self._let_in()
            bring_up_to_date(work, facts, found, taken, context)
        except GitHubError as error:
            self._fail(facts, error)
            return
        with self._transaction([facts.key]) as uow:
            self._release(facts, uow.ports[GitHubLimits].ruleset_delay)

"""The rules at GitHub: whether our check is required, the rulesets that we wrote, pushes to frozen branches."""

from collections.abc import Iterable
from datetime import datetime
from itertools import product
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased


class BranchEnforcement(Leased, Base):
    """What the last probe found on a branch; a branch without a row was never probed."""

    __tablename__ = "branch_enforcement"

    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    light: Mapped[str] = mapped_column(server_default="amber")
    """`green`, `amber` or `red`."""
    required: Mapped[bool] = mapped_column(server_default="false")
    """Whether an active rule requires our check, the branch's own or its pattern's, pinned to us or not."""
    own_rule: Mapped[bool] = mapped_column(server_default="false")
    """Whether an active rule requires the branch's own check from our App; without one, the pattern's check decides."""
    decisive_check: Mapped[str | None]
    """The check that a rule in force requires and that decides whether a head may enter; None: no rule requires one."""
    required_since: Mapped[datetime | None]
    """Since when a rule was seen to require our check, now or the last time; None: never."""
    required_until: Mapped[datetime | None]
    """When a rule was last seen to require it, if none does any more."""
    open_ways: Mapped[list[str]] = mapped_column(server_default="{deletion}")
    """Ways into the branch that its rules leave open while it is frozen (`rules/freezes/blocking.py`)."""
    rule_requested_at: Mapped[datetime | None]
    """When a rule of its own was requested because the App may write it, or was first seen; None: never."""
    ruleset: Mapped[dict[str, Any] | None]
    """`{id, name, enforcement}` of the ruleset that requires the check, or would if it were active."""
    integration_pinned: Mapped[bool | None]
    bypass_actors: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB(none_as_null=True))
    """Who can bypass the ruleset; None: not visible to us."""
    merge_queue: Mapped[dict[str, Any] | None]
    """`{groupingStrategy, reported}` where a merge queue is in use."""
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default="[]")
    """Each `{code, severity, message}`."""
    verified_at: Mapped[datetime | None]
    """When the last probe ended."""
    rules_read_at: Mapped[datetime | None]
    """When the last probe began to which GitHub showed the rules."""
    rules_reported_at: Mapped[datetime | None]
    """When GitHub last reported a change that may concern the rules."""
    stop: Mapped[str | None]
    """The context of the stop that is in force on the branch (`NamingRuleset`); None: none is."""

    __table_args__ = (Index("ix_branch_enforcement_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),)


class WrittenRuleset(Base):
    """A ruleset at GitHub that this service created: it changes and removes no other."""

    __tablename__ = "written_rulesets"

    level: Mapped[str] = mapped_column(primary_key=True)
    """`repository` or `organization`."""
    ruleset_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    installation_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("installations.id"))
    repository_id: Mapped[str | None] = mapped_column(ForeignKey("repositories.id"))
    check_name: Mapped[str]
    forbids_deletion: Mapped[bool] = mapped_column(server_default="false")
    """Whether its rule against deletion is ours: one that people added stays when our check is removed."""
    written_at: Mapped[datetime]


Ref = tuple[str, str]
"""A branch that a ruleset names: our id of its repository, and its name."""


_UNSEEN_STOP = text("stop_context IS NOT NULL AND stop_in_force_at IS NULL")


class NamingRuleset(Leased):
    """The columns of a ruleset of ours that names frozen branches, and that may have a stop.

    A *stop* is a required context that no head has, so that nothing can merge until the checks are written.
    """

    ruleset_id: Mapped[int | None] = mapped_column(BigInteger)
    """GitHub's id; None: it was not created yet, or people deleted it."""
    writing: Mapped[dict[str, Any] | None]
    """What was sent to create it, as long as the answer is not known."""
    branch_names: Mapped[list[str]] = mapped_column(server_default="{}")
    """The branches that it named when it was last written or read, in order."""
    written_at: Mapped[datetime | None]
    node_id: Mapped[str | None]
    """GitHub's id of the ruleset in the graph; None: not known."""
    may_stop: Mapped[bool] = mapped_column(server_default="false")
    """Whether a freeze began with more heads that show `success` than one batch of checks writes."""
    stop_context: Mapped[str | None]
    """The context that the ruleset requires for a stop, or may require; None: no stop is on."""
    stop_written_at: Mapped[datetime | None]
    """When GitHub answered that the stop is on; None: the answer is not known."""
    stop_in_force_at: Mapped[datetime | None]
    """When it was last found in order while the stop was seen in force on every branch that it names."""
    stop_ending_at: Mapped[datetime | None]
    """When GitHub answered that the stop is off, for some branches at least, or people ended it; None once the checks
    were written again that GitHub waits for."""
    stop_refused_at: Mapped[datetime | None]
    """When people disabled or deleted the ruleset while its stop was in force: freezes from before get no other."""
    stop_passed: Mapped[list[str]] = mapped_column(server_default="{}")
    """The commits that got the context of the stop, because exceptions let them in (`ExemptHead.key`)."""


class FrozenBranchRuleset(NamingRuleset, Base):
    """The ruleset of a repository that keeps its frozen branches from being deleted, created or renamed.

    Due when it may not name exactly the branches that are frozen, or have the stop that they need: both are computed
    when the work is done.
    """

    __tablename__ = "frozen_branch_rulesets"

    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id"), primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    organization_stop_id: Mapped[str | None] = mapped_column(ForeignKey("organization_stops.id"))
    """The ruleset of the organisation to which the repository leaves its stop; None: it has one of its own, or none."""

    __table_args__ = (
        Index("ix_frozen_branch_rulesets_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index(
            "ix_frozen_branch_rulesets_organization_stop_id",
            "organization_stop_id",
            postgresql_where=text("organization_stop_id IS NOT NULL"),
        ),
        Index("ix_frozen_branch_rulesets_unseen_stop", "repository_id", postgresql_where=_UNSEEN_STOP),
    )

    @property
    def named(self) -> frozenset[Ref]:
        """The branches that the ruleset may name."""
        return frozenset((self.repository_id, name) for name in self.branch_names)

    def name(self, refs: Iterable[Ref]) -> None:
        """Record the branches that the ruleset may name."""
        self.branch_names = sorted(name for _repository_id, name in refs)


class OrganizationStop(NamingRuleset, Base):
    """A ruleset of an organisation that has the stop of many repositories in which the same branches are frozen.

    It names the product of repositories and branches. Without a stop it is disabled, and kept for the next one.
    """

    __tablename__ = "organization_stops"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    installation_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("installations.id"), index=True)
    repository_ids: Mapped[list[str]] = mapped_column(server_default="{}")
    """The repositories in which it may name `branch_names`, in order."""
    freed_ids: Mapped[list[str]] = mapped_column(server_default="{}")
    """Those in which it has ceased to name a branch since the checks were last written again (`stop_ending_at`)."""

    __table_args__ = (Index("ix_organization_stops_unseen_stop", "id", postgresql_where=_UNSEEN_STOP),)

    @property
    def named(self) -> frozenset[Ref]:
        """The branches that the ruleset may name."""
        return frozenset(product(self.repository_ids, self.branch_names))

    def name(self, refs: Iterable[Ref]) -> None:
        """Record the branches that the ruleset may name, which are a product."""
        found = list(refs)
        self.repository_ids = sorted({repository_id for repository_id, _name in found})
        self.branch_names = sorted({name for _repository_id, name in found})

    def free(self, refs: Iterable[Ref]) -> None:
        """Record that the ruleset has ceased to name these branches."""
        self.freed_ids = sorted({*self.freed_ids, *(repository_id for repository_id, _name in refs)})


class EnforcementSetup(Leased, Base):
    """A requested setup; a job writes its rulesets, or an administrator authorises that."""

    __tablename__ = "enforcement_setups"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    scope: Mapped[dict[str, Any]]
    state: Mapped[str]
    """`queued`, `awaiting_authorization`, `done` or `failed`."""
    requested_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    total: Mapped[int] = mapped_column(server_default="0")
    written: Mapped[int] = mapped_column(server_default="0")
    state_hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the `state` that GitHub sends back; used once."""
    code_verifier: Mapped[str | None]
    """PKCE (RFC 7636); erased when the code is exchanged."""
    expires_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    progress: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    """What it has written, what failed and what it is writing: `services/enforcement/setups.py` lists the keys."""

    __table_args__ = (
        Index("ix_enforcement_setups_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("ix_enforcement_setups_organization_id", "organization_id", "created_at"),
        Index("uq_enforcement_setups_state", "state_hash", unique=True),
    )


class FrozenBranchPush(Base):
    """A push to a branch while a freeze covered it, and its classification."""

    __tablename__ = "frozen_branch_pushes"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    sha: Mapped[str]
    kind: Mapped[str]
    """`bypassed`, `unprotected`, `landed_before_block`, `enforcement_gap` or `excepted`."""
    landed_at: Mapped[datetime]
    found_at: Mapped[datetime]
    details: Mapped[dict[str, Any]]

    __table_args__ = (
        Index("ix_frozen_branch_pushes_organization_id", "organization_id", "landed_at"),
        Index("uq_frozen_branch_pushes_commit", "branch_id", "sha", "landed_at", unique=True),
    )

"""The registry of jobs: what a wake-up can name, in the order of priority.

A wake-up is the name of a job, with nothing that the job has to do. The job runs until nothing is due or its time slice
is over; the next wake-up finds in PostgreSQL what is due by then. The sweep wakes the jobs that have work, and runs
them itself when no worker does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from integrations.github import GitHub
from integrations.mail.smtp import MailServer
from integrations.slack import Slack
from integrations.stripe import Stripe
from jobs.background_thread import HeadStart, run_in_background
from jobs.context import BACKGROUND_TIME_SLICE, TIME_SLICE, Context, get_context, run_for
from jobs.loop_watch import MAX_SECONDS_OF_SLOW
from services.billing.prices import CATALOGUES, refresh_prices
from services.billing.sync import CUSTOMERS, sync_customer
from services.bypass_detection.detection import TIPS, detect_bypasses
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import WorkQueue
from services.enforcement.frozen_branches import FROZEN_BRANCHES, STOPS, write_due
from services.enforcement.probe_queue import PROBES
from services.enforcement.probes import probe_due
from services.enforcement.setup_runs import SETUPS, apply_due
from services.enforcement.stops import has_stops, stop_due
from services.mail.delivery import MAILS, send_due
from services.maintenance.webhook_log import LOG, read_log
from services.notifications.dispatch import dispatch_due
from services.notifications.dispatch import has_work as has_events
from services.offboarding.withdrawal import WITHDRAWALS, withdraw_due
from services.outgoing_webhooks.delivery import MESSAGES, deliver_due
from services.outgoing_webhooks.messages import JOB as OUTGOING_WEBHOOKS
from services.reconcile.leases import CHECKS
from services.repository_sync.sync import SYNCS, sync_due
from services.slack.delivery import MESSAGES as SLACK_MESSAGES
from services.slack.delivery import send_due as send_due_messages
from services.slack.tokens import CONNECTIONS, renew_tokens
from services.webhooks.deliveries import DELIVERIES, process


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of work."""

    name: str
    step: Callable[[Context], bool]
    """Do one unit of the work; return False if nothing is due, or all of it is leased."""
    work: WorkQueue | Callable[[UnitOfWork], bool]
    """Its queue, or whether there is work."""
    time_slice: float = BACKGROUND_TIME_SLICE
    """Seconds after which the job lets other wake-ups run first."""
    in_background: bool = False
    """True if it runs on a thread of its own: it waits for no other job, and a server that hangs delays none."""
    threads: int = 1
    """How many threads of a process do it at once, in the background: most of the time each waits for an answer."""
    by_sweep: bool = False
    """True if the sweep does it when it is due, as it often is, and a wake-up only names it when it is requested."""

    needs: type[object] | None = None
    """The port that it cannot be done without."""

    def is_configured(self, ports: Ports) -> bool:
        """Return whether a process with these ports can do it."""
        return self.needs is None or ports.find(self.needs) is not None

    def has_work(self, uow: UnitOfWork) -> bool:
        """Return whether work is due that no process does, and that this configuration can do."""
        if not self.is_configured(uow.ports):
            return False
        return self.work.has_work(uow) if isinstance(self.work, WorkQueue) else self.work(uow)

    def run(self) -> None:
        """Run until nothing is due or the time slice is over; return at once if it runs in the background."""
        context = get_context()
        context.started(self.name)
        if self.in_background:
            run_in_background(self.name, partial(self._watched_step, context), self.threads)
        else:
            with context.watch.working():
                run_for(context, self.name, partial(self._measured_step, context), self.time_slice)

    def _watched_step(self, context: Context) -> bool:
        with context.watch.working(MAX_SECONDS_OF_SLOW):
            return self._measured_step(context)

    def _measured_step(self, context: Context) -> bool:
        began = monotonic()
        try:
            found_work = self.step(context)
        except Exception:
            context.observer.step_failed(self.name)
            raise
        if found_work:
            context.observer.step_done(self.name, monotonic() - began)
        return found_work


def _with_github(step: Callable[[UnitOfWorkFactory, GitHub], bool]) -> Callable[[Context], bool]:
    return lambda context: step(context.uow_factory, context.github)


def _without_github(step: Callable[[UnitOfWorkFactory], bool]) -> Callable[[Context], bool]:
    return lambda context: step(context.uow_factory)


_head_start = HeadStart()


def _run_pass(context: Context) -> bool:
    """Run a pass of the reconciler, once the stops are on that this process is making: they block more at once."""
    _head_start.give(STOPS.kind)
    return context.reconciler.run_pass()


JOBS = {
    job.name: job
    for job in (
        Job("webhooks", _with_github(process), DELIVERIES),
        Job(LOG.kind, _with_github(read_log), LOG, in_background=True, by_sweep=True),
        Job(STOPS.kind, _with_github(stop_due), has_stops, in_background=True, threads=4, by_sweep=True),
        Job("reconcile", _run_pass, CHECKS, TIME_SLICE),
        Job(FROZEN_BRANCHES.kind, _with_github(write_due), FROZEN_BRANCHES),
        Job("setup", _with_github(apply_due), SETUPS),
        Job("sync", _with_github(sync_due), SYNCS),
        Job("verify", _with_github(probe_due), PROBES),
        Job("bypasses", _with_github(detect_bypasses), TIPS),
        Job("notifications", _without_github(dispatch_due), has_events, in_background=True),
        Job("mail", _without_github(send_due), MAILS, in_background=True, needs=MailServer),
        Job(OUTGOING_WEBHOOKS, _without_github(deliver_due), MESSAGES, in_background=True),
        Job("billing", _without_github(sync_customer), CUSTOMERS, in_background=True, needs=Stripe),
        Job("prices", _without_github(refresh_prices), CATALOGUES, in_background=True, needs=Stripe),
        Job("slack", _without_github(send_due_messages), SLACK_MESSAGES, in_background=True, needs=Slack),
        Job("slack_tokens", _without_github(renew_tokens), CONNECTIONS, in_background=True, needs=Slack),
        Job("withdraw", _with_github(withdraw_due), WITHDRAWALS, in_background=True),
    )
}


def queues_of(ports: Ports) -> Sequence[WorkQueue]:
    """Return the queues whose work this configuration does; the job of stops reads back what it wrote as well."""
    configured = (job.work for job in JOBS.values() if job.is_configured(ports))
    return [STOPS, *(work for work in configured if isinstance(work, WorkQueue))]


def run(name: str) -> None:
    """Run the named job; RQ calls this function in the workers."""
    JOBS[name].run()


def jobs_with_work(uow_factory: UnitOfWorkFactory) -> list[str]:
    """Return the jobs with due work that no process has leased, in the order of priority.

    Such work is left by a lost wake-up, a retry that is due, or a lease that has ended.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return [name for name, job in JOBS.items() if job.has_work(uow)]

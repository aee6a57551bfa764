"""The list of the pages of the dashboard."""

from web.dashboard.attention import Attention
from web.dashboard.audit import Audit, AuditExport
from web.dashboard.exception_rules import EditExceptionRule, ExceptionRulePage, ExceptionRules
from web.dashboard.exceptions import Decide, Exceptions, Revoke
from web.dashboard.freezes import Extend, Freeze, FreezePart, Freezes, Lift, Override
from web.dashboard.new_freeze import Impact, NewFreeze
from web.dashboard.overview import Onboarding, Overview, OverviewPart
from web.dashboard.page import DashboardPage
from web.dashboard.planning.calendar import Calendar
from web.dashboard.planning.imports import Import, ImportCountries
from web.dashboard.planning.schedules import EditSchedule, NewSchedule, SchedulePage, SchedulePreview, Schedules
from web.dashboard.planning.timeline import Timeline
from web.dashboard.pulls import PullRequest, RequestException
from web.dashboard.repositories.branch import BranchPage, Doctor
from web.dashboard.repositories.repositories import Branches, Repositories, RepositoryPage
from web.dashboard.repositories.setup import Setup, SetupProgress
from web.dashboard.scopes import RepositoryChoices
from web.dashboard.settings.api_keys import ApiKeys
from web.dashboard.settings.calendar_feeds import CalendarFeeds
from web.dashboard.settings.members import Members
from web.dashboard.settings.notifications import Notifications
from web.dashboard.settings.organization import OrganizationSettings
from web.dashboard.settings.webhooks import WebhookPage, Webhooks

PAGES: tuple[type[DashboardPage], ...] = (
    Overview, OverviewPart, Onboarding, Freezes, NewFreeze, Impact, Freeze, FreezePart, Lift, Extend, Override,
    Exceptions, Decide, Revoke, ExceptionRules, ExceptionRulePage, EditExceptionRule, PullRequest, RequestException,
    Attention,
    Calendar, Timeline, Schedules, NewSchedule, SchedulePreview, SchedulePage, EditSchedule, Import,
    ImportCountries,
    Repositories, RepositoryChoices, RepositoryPage, Branches, BranchPage, Doctor, Setup, SetupProgress,
    Audit, AuditExport,
    OrganizationSettings, Members, ApiKeys, CalendarFeeds, Webhooks, WebhookPage, Notifications,
)  # fmt: skip

"""The table of pages, in the order of the sidebar."""

from typing import Final

from penstock.monitor.page import Page
from penstock.monitor.pages import (
    audit,
    find,
    floating,
    gate,
    gates,
    job,
    jobs,
    operations,
    overview,
    plan,
    queues,
    schedules,
    settings,
    timeline,
    workers,
    workflow,
    workflows,
)

PAGES: Final = (
    Page("/", "Overview", overview.show, "overview.html", "/"),
    Page("/gates", "Gates", gates.show, "gates.html", "/gates"),
    Page("/gate", "Gate", gate.show, "gate.html", "/gates"),
    Page("/timeline", "Timeline", timeline.show, "timeline.html", "/timeline"),
    Page("/jobs", "Jobs", jobs.show, "jobs.html", "/jobs"),
    Page("/job", "Job", job.show, "job.html", "/jobs"),
    Page("/queues", "Queues", queues.show, "queues.html", "/queues"),
    Page("/workers", "Workers", workers.show, "workers.html", "/workers"),
    Page("/schedules", "Schedules", schedules.show, "schedules.html", "/schedules"),
    Page("/workflows", "Workflows", workflows.show, "workflows.html", "/workflows"),
    Page("/workflow", "Workflow", workflow.show, "workflow.html", "/workflows"),
    Page("/floating", "Floating limits", floating.show, "floating.html", "/floating"),
    Page("/plan", "Plan", plan.show, "plan.html", "/plan", follows=False),
    Page("/operations", "Operations", operations.show, "operations.html", "/operations"),
    Page("/settings", "Settings", settings.show, "settings.html", "/settings"),
    Page("/audit", "Audit", audit.show, "audit.html", "/audit"),
    Page("/find", "Find", find.show, "find.html", ""),
)

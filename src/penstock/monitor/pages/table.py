"""The table of pages, in the order of the sidebar."""

from typing import Final

from penstock.monitor.page import Page
from penstock.monitor.pages import gate, gates, job, jobs, overview

PAGES: Final = (
    Page("/", "Overview", overview.show, "overview.html", "/"),
    Page("/gates", "Gates", gates.show, "gates.html", "/gates"),
    Page("/gate", "Gate", gate.show, "gate.html", "/gates"),
    Page("/jobs", "Jobs", jobs.show, "jobs.html", "/jobs"),
    Page("/job", "Job", job.show, "job.html", "/jobs"),
)

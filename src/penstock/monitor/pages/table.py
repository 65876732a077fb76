"""The table of pages, in the order of the sidebar."""

from typing import Final

from penstock.monitor.page import Page
from penstock.monitor.pages import overview

PAGES: Final = (Page("/", "Overview", overview.show, "overview.html", "/"),)

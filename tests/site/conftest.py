"""A browser, and sites to read in it, which every test of the site shares."""

from tests.site.browser import chromium, hostile, integers, site, tab

__all__ = ["chromium", "hostile", "integers", "site", "tab"]

"""Sites to read, which every test of the site shares."""

from tests.site.browser import page, without_script
from tests.site.sites import empty_site, evidence_site, hostile_site, integer_site, measured_site, site, whole_site

__all__ = ["empty_site", "evidence_site", "hostile_site", "integer_site", "measured_site", "site", "whole_site"]
__all__ += ["page", "without_script"]

"""A release as one HTML file that needs nothing else: `dpspark report`."""

from dpspark.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]

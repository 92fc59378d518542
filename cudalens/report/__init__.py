"""The offline report: one HTML file that shows a Trace anywhere, with the network off."""

from cudalens.report.html import to_html

__all__ = ["to_html"]

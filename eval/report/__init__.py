"""The report: one page, figures and tables of the results. `write_report` makes all of it."""

from .models import ReportError
from .write import write_report

__all__ = ["ReportError", "write_report"]

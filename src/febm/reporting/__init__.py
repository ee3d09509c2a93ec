"""One self-contained HTML page that says in plain sentences what is good about a model, and what is not."""

from febm.reporting.build import Report, report
from febm.reporting.findings import Finding
from febm.reporting.subject import ReportEffort

__all__ = ["Finding", "Report", "ReportEffort", "report"]

"""What an evaluation says, in words, tables and pictures: one HTML page, its Markdown and its JSON."""

from knn_ue.report.headline import LeadTable
from knn_ue.report.mistakes import Mistake
from knn_ue.report.report import Report, ReportFiles, build_report

__all__ = ["LeadTable", "Mistake", "Report", "ReportFiles", "build_report"]

"""The papers' tables, reproduced beside today's peers: declared as data, run by one runner."""

from __future__ import annotations

from squaresvm.bench.downloads import fetch_missing
from squaresvm.bench.report import write_reports
from squaresvm.bench.runner import ResultsError, read_results, run_tables
from squaresvm.bench.table import TableFileError, known_tables, load_table
from squaresvm.bench.verdicts import compare_results

__all__ = [
    "ResultsError",
    "TableFileError",
    "compare_results",
    "fetch_missing",
    "known_tables",
    "load_table",
    "read_results",
    "run_tables",
    "write_reports",
]

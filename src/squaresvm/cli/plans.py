"""What each column was taken for, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from squaresvm.cli.console import Printer, counted
from squaresvm.readers.plan import ColumnPlan

__all__ = ["say_plan", "say_unusual"]


def say_plan(printer: Printer, plans: Sequence[ColumnPlan], data: Path, shape: tuple[int, ...]) -> None:
    """Print what every column is taken for, and that nothing was trained."""
    rows, columns = shape
    width = max((len(plan.name) for plan in plans), default=0)
    for plan in plans:
        gaps = f"; {counted(plan.missing, 'cell')} without a value" if plan.missing else ""
        note = f"; {plan.note}" if plan.note else ""
        printer.say(f"{plan.name:<{width}}  {plan.kind:<9} {plan.detail}{gaps}{note}".rstrip())
    made = f"{counted(int(rows), 'row')} of {counted(int(columns), 'column')} of numbers"
    printer.say(f"{data}: {made} would be trained on; nothing was.")
    printer.result({"rows": rows, "columns": columns, "plan": [asdict(plan) for plan in plans]})


def say_unusual(printer: Printer, plans: Sequence[ColumnPlan]) -> None:
    """Note what was read otherwise than as plain numbers and words, and what was left out."""
    for plan in plans:
        if plan.kind == "left out" and plan.detail != "as asked":
            printer.note(f"column {plan.name!r} is left out: {plan.detail}")
        elif plan.kind == "date" or (plan.kind == "number" and "(" in plan.detail):
            printer.note(f"column {plan.name!r} is taken for {plan.kind}s: {plan.detail}")
        if plan.note:
            printer.note(f"column {plan.name!r} {plan.note}")

"""DoTime's published figures beside ours.

References:
    eval/paper/dotime.json.
"""

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from ..report.tables import MODEL, Column, Table
from .board import Board
from .tables import interval

__all__ = ["later_table", "load_dotime", "paper_table"]


@functools.cache
def load_dotime() -> Mapping[str, Any]:
    """The paper's and the package's figures."""
    return json.loads((files("eval.paper") / "dotime.json").read_text("utf-8"))


def _both(key: str, label: str) -> list[Column]:
    """A figure of the paper, and ours."""
    ends = ((f"{key}_paper_low", f"{key}_paper_high"),) if key == "rmse" else ()
    return [
        Column(f"{key}_paper", "DoTime", "number", label, ends),
        Column(f"{key}_ours", "ours", "number", label, ((f"{key}_ours_low", f"{key}_ours_high"),)),
    ]


def paper_table(board: Board) -> Table:
    """Table 3 of the paper beside ours."""
    published = load_dotime()
    columns = [
        Column("suite", "Suite"),
        Column("method", "DoTime's method"),
        MODEL,
        *_both("rmse", "RMSE"),
        *_both("direction", "Direction"),
        Column("comparable", "Comparable"),
    ]
    rows = []
    for name, suite in published["table_3"]["suites"].items():
        label = board.label(name)
        if not label:
            continue
        for method, (error, low, high, direction) in suite["rows"].items():
            ours = published["names"].get(method, "")
            row = {"suite": label, "method": method, "model": ours or None, "rmse_paper": error,
                   "rmse_paper_low": low, "rmse_paper_high": high,
                   "direction_paper": direction}  # fmt: skip
            row |= interval("rmse_ours", board.array(label, ours, "interventional_rmse"))
            row |= interval("direction_ours", board.array(label, ours, "interventional_direction"))
            rows.append(row | {"comparable": _comparable(published, name, method)})
    shares = []
    for name, suite in published["table_3"]["suites"].items():
        found = next(
            (board.get(board.label(name), one) for one in board.of(board.label(name))), None
        )
        if found is not None:
            theirs = 1 - suite["directed"] / suite["episodes"]
            ours_share = found.dead["interventional"] / found.queries
            shares.append(
                f"{name}: {100 * theirs:.1f} % of theirs, {100 * ours_share:.1f} % of ours"
            )
    reasons = " ".join(
        f"{name.capitalize()}: {text}"
        for name, text in published["differences"].items()
        if board.label(name)
    )
    note = f"{published['note']} Targets in the dead zone: {'; '.join(shares)}. {reasons}"
    return Table.of_rows("paper", "DoTime's Table 3 and ours", columns, rows, note)


def _comparable(published: Mapping[str, Any], suite: str, method: str) -> str:
    known = published["comparable"].get(suite)
    if known is None:
        return "by construction" if method == "Oracle" else "no: another suite, see below"
    return known.get(method) or published["methods"].get(method, "in kind")


def later_table(board: Board) -> Table | None:
    """The package's later suite, whose truth is the counterfactual, beside ours."""
    published = load_dotime()
    later = published["version_1_2"]
    suite, label = later["suites"]["identifiability"], board.label("identifiability")
    if not label:
        return None
    columns = [
        Column("method", "DoTime's method"),
        MODEL,
        *_both("rmse", "RMSE"),
        *_both("direction", "Direction"),
        *_both("effect", "Direction, forecast less factual"),
    ]
    rows = []
    for method, (error, low, high, direction, effect) in suite["rows"].items():
        ours = published["names"][method]
        row = {"method": method, "model": ours, "rmse_paper": error, "rmse_paper_low": low,
               "rmse_paper_high": high, "direction_paper": direction,
               "effect_paper": effect}  # fmt: skip
        row |= interval("rmse_ours", board.array(label, ours, "counterfactual_rmse"))
        row |= interval("direction_ours", board.array(label, ours, "counterfactual_direction"))
        row |= interval("effect_ours", board.array(label, ours, "change_direction"))
        rows.append(row)
    note = (
        f"{suite['name']}: nine structures of 1,350, columns in order, both runs with the same "
        f"noise ({suite['source']}). The nearest to ours; VAR-OLS is still fitted on the whole run "
        "and forecasts the step after its end."
    )
    return Table.of_rows("later", "DoTime's later suite and ours", columns, rows, note)

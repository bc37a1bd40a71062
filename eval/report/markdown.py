"""The report's main tables as Markdown, as `eval/leaderboard/README.md` holds them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..paper.findings import Finding
from .comparison import Comparison
from .labels import FUTURES, INFORMED_MARK
from .tables import Table, shown
from .tables.leaderboard import SPLITS_NOTE

__all__ = ["footnotes", "grid", "leaderboard_text"]


def footnotes(comparison: Comparison) -> list[str]:
    """A line about every informed model, models of one reason together."""
    reasons: dict[str, list[str]] = {}
    for name, model in comparison.models.items():
        if model.informed:
            reasons.setdefault(model.informed, []).append(name)
    return [
        f"{INFORMED_MARK} {', '.join(names)}: informed: {reason.rstrip('.')}."
        for reason, names in reasons.items()
    ]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
                     for line in lines)  # fmt: skip


def leaderboard_text(
    comparison: Comparison,
    tables: Mapping[str, Table],
    found: Sequence[Finding],
    paper: Sequence[Table],
) -> str:
    """Leaderboard, parts of the suite, differences, coverage, findings, paper beside ours.

    As Markdown, under wQL, against the report's first reference.
    """
    reference = comparison.references[0]
    parts = [
        f"## Leaderboard\n\nSkill against {reference} under wQL, in percent; for a point forecast "
        "wQL is WAPE. Intervals are 95 %: by pair for this suite, by target for other targets of "
        "these kinds. Win rates are over the tasks that all models of a ranking share. Interval: "
        "share of the truth within the 80 % interval."
    ]
    several = len(comparison.splits) > 1
    if several:
        parts.append(SPLITS_NOTE)
    board = tables["leaderboard"].where(reference=reference)
    for split, names in comparison.splits.items():
        if several:
            parts.append(f"### {split[0].upper()}{split[1:]}")
        parts.append(_board(comparison, [row for row in board.to_dicts() if row["model"] in names]))
    parts += footnotes(comparison)
    parts.append(_parts_of_suite(comparison, tables, reference))
    parts += [_difference(comparison, table, reference) for name, table in tables.items()
              if name.startswith("difference_")]  # fmt: skip
    if "coverage" in tables:
        parts.append(_coverage(comparison, tables["coverage"]))
    if found:
        rows = [(one.claim, one.verdict, one.summary) for one in found]
        parts.append("## The paper's findings\n\n" + grid(("finding", "here", ""), rows))
    parts += [_paper(table) for table in paper if table.name == "paper_and_ours"]
    return "\n\n".join(parts) + "\n"


def _board(comparison: Comparison, rows: list[dict[str, Any]]) -> str:
    head = ("forecaster", "trained on", "tasks", "skill", "by pair", "by target", "win rate",
            "interval", "seconds a series")  # fmt: skip
    cells = []
    for row in rows:
        model = comparison.models[row["model"]]
        tasks = f"{row['tasks']:,}" + ("" if model.scored == "all tasks" else f" ({model.scored})")
        interval = "point" if model.point else shown(row["interval"], "share")
        cells.append((
            model.marked, row["trained_on"], tasks, _percent(row["wql_skill"]),
            _ends(row, "wql_skill_pair"), _ends(row, "wql_skill_target"),
            _percent(row["wql_win_rate"]), interval, f"{row['seconds']:.2g}",
        ))  # fmt: skip
    return grid(head, cells)


def _parts_of_suite(comparison: Comparison, tables: Mapping[str, Table], reference: str) -> str:
    """Skill by future, by system and, of novel futures, by number of covariates."""
    wanted = {  # columns of a table, and how they are headed
        "replay_novel": {future: future.capitalize() for future in FUTURES},
        "by_system": {system: system for system in comparison.systems},
        "skill_by_k": {f"novel_{k}": f"Novel, K = {k}" for k in comparison.positions("k")},
    }
    # a model without tasks somewhere has a dash there
    found = [
        {row["model"]: row for row in tables[name].where("wql", reference).to_dicts()}
        for name in wanted
    ]
    labels = [label for columns in wanted.values() for label in columns.values()]
    head = ["forecaster", "trained on", *labels]
    rows = [
        [
            comparison.models[model].marked,
            comparison.models[model].split,
            *(
                _percent(of.get(model, {}).get(one))
                for of, columns in zip(found, wanted.values(), strict=True)
                for one in columns
            ),
        ]
        for model in found[0]
    ]
    return (
        "## Skill by future, system and number of covariates\n\nPercent, as above; systems over "
        f"both futures.\n\n{grid(head, rows)}"
    )


def _difference(comparison: Comparison, table: Table, reference: str) -> str:
    head = ("forecaster", "trained on", "tasks", "skill", table.columns[4].label, "difference",
            "by pair", "by target", "better on")  # fmt: skip
    rows = [
        (
            comparison.models[row["model"]].marked, row["trained_on"], f"{row['tasks']:,}",
            _percent(row["skill"]), _percent(row["other_skill"]), f"{row['difference']:+.1f}",
            _ends(row, "difference_pair", "+"), _ends(row, "difference_target", "+"),
            _percent(row["better"]),
        )
        for row in table.where("wql", reference).to_dicts()
    ]  # fmt: skip
    return (
        f"## {table.title}\n\nSkill (wQL, percent) of the row less that of "
        f"{table.columns[4].label}, over the tasks of both; intervals of the difference itself, "
        f"95 %. Better on: percent of those tasks.\n\n{grid(head, rows)}"
    )


def _coverage(comparison: Comparison, table: Table) -> str:
    columns = [column for column in table.columns if column.key not in ("forecasts", "tasks")]
    labels = {"interval": "within the 80 % interval", "deviation": "mean deviation"}
    rows = [
        [
            comparison.models[row["model"]].marked
            if column.key == "model"
            else shown(row[column.key], column.kind)
            for column in columns
        ]
        for row in table.frame.to_dicts()
    ]
    head = [labels.get(column.key, column.label.lower()) for column in columns]
    return (
        "## Quantile coverage\n\nPercent of the truth at or below the quantile whose level is at "
        f"the head; a calibrated model repeats the heads.\n\n{grid(head, rows)}"
    )


def _paper(table: Table) -> str:
    head = ("figure", "model", "at", "paper", "ours", "difference", "tasks")
    rows = [
        (
            row["figure"], row["model"], row["at"], _percent(row["paper"]), _percent(row["ours"]),
            f"{row['difference']:+.1f}",
            f"{row['tasks']:,}" + ("" if row["scored"] == "all tasks" else f" ({row['scored']})"),
        )
        for row in table.frame.to_dicts()
    ]  # fmt: skip
    return (
        "## Paper and ours\n\nPercent; the difference is in percentage points. The paper's "
        "equations are lost and its simulator runs are not ours, so the levels differ, by up to "
        "tens of points; rankings and trends are what can be compared.\n\n" + grid(head, rows)
    )


def _percent(value: float | None) -> str:
    return shown(None, "percent") if value is None else f"{value:.1f}"


def _ends(row: Mapping[str, Any], key: str, sign: str = "") -> str:
    low, high = row[f"{key}_low"], row[f"{key}_high"]
    return shown(None, "percent") if low is None else f"{low:{sign}.1f} to {high:{sign}.1f}"

"""Figures from the report's tables: each variant drawn, saved as PNG and SVG, kept for the page."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .comparison import Comparison
from .drawing import save
from .figures import (
    Line,
    fewest_most_figure,
    gap_figure,
    leaderboard_figure,
    pairwise_figure,
    replay_novel_figure,
    skill_by_figure,
    system_figure,
)
from .numbers import AXES, FUTURES, positions, skill_by_title, trend, variants
from .page import Picture, PictureFile
from .style import Style
from .tables import Table

__all__ = ["Pictures"]

ENDS = ("pair_low", "pair_high", "target_low", "target_high")
_NAMES = {"wql": "wQL", "wape": "WAPE"}
Row = dict[str, Any]


class Pictures:
    """Draws the report's figures into a folder.

    Args:
        comparison: the models compared.
        tables: the report's tables by name.
        folder: for the files.
        progress: called after each file with its name.
    """

    def __init__(
        self,
        comparison: Comparison,
        tables: Mapping[str, Table],
        folder: Path,
        progress: Callable[[str], object],
    ):
        self.comparison = comparison
        self.tables = tables
        self.folder = folder
        self.progress = progress
        self.style: dict[str, Style] = {
            name: model.style for name, model in comparison.models.items()
        }

    def _rows(self, table: str, metric: str, reference: str | None = None) -> list[Row]:
        wanted = {"metric": metric, "reference": reference}
        return [
            row
            for row in self.tables[table].rows
            if all(row.get(key, value) == value for key, value in wanted.items())
        ]

    def _both(
        self, name: str, caption: str, draw: Callable[[str, str], Any | None], title: str
    ) -> Picture | None:
        """A picture with a variant for every metric and reference."""
        files = []
        for metric, reference in variants(self.comparison):
            made = draw(metric, reference)
            if made is not None:
                stem = f"{name}_{metric}_{reference}"
                files.append(self._file(made, stem, metric, reference, title))
        return Picture(name, caption, files) if files else None

    def _file(
        self, made: Any, stem: str, metric: str, reference: str | None, title: str
    ) -> PictureFile:
        svg = save(made, self.folder / stem)
        self.progress(stem)
        against = f" against {reference}" if reference else ""
        return PictureFile(metric, reference, svg, f"{title}, {_NAMES[metric]}{against}")

    def leaderboard(self) -> Picture | None:
        """Bars of overall skill."""
        marks = {
            name: "part" if model.where else "sample" if model.sample else ""
            for name, model in self.comparison.models.items()
        }

        def draw(metric: str, reference: str) -> Any:
            key = f"{metric}_skill"
            rows = [
                (row["model"], row[key], *(row[f"{key}_{end}"] for end in ENDS),
                 marks[row["model"]])
                for row in self.tables["leaderboard"].rows
                if row["reference"] == reference
            ]  # fmt: skip
            return leaderboard_figure(rows, self.style, _label(metric, reference))

        caption = (
            "Skill over each model's own tasks with 95 % bootstrap intervals: thick for this "
            "suite's targets, thin for other targets of these kinds."
        )
        if any(marks.values()):
            caption += " Hatched bars are samples or parts."
        return self._both("leaderboard", caption, draw, "Skill of each model")

    def replay_novel(self) -> Picture | None:
        """Bars of both futures."""

        def draw(metric: str, reference: str) -> Any:
            rows = self._rows("replay_novel", metric, reference)
            known = [(row["model"], row["replay"], row["novel"]) for row in rows]
            return replay_novel_figure(known, _label(metric, reference))

        caption = "Skill on Replay and Novel futures, sorted by Replay."
        return self._both("replay_novel", caption, draw, "Replay and Novel skill")

    def skill_by(self, table: str) -> Picture | None:
        """Skill along one axis."""
        axis, title, log2 = AXES[table]
        places = positions(self.comparison, axis)

        def draw(metric: str, reference: str) -> Any:
            skills = self.comparison.skills(metric, reference, ("future", axis))
            names = [row["model"] for row in self._rows(table, metric, reference)]
            lines: dict[str, dict[str, Line]] = {}
            for future in FUTURES:
                lines[future] = {}
                for name in names:
                    known = [value for value in places if (future, value) in skills[name]]
                    fit = trend(skills, name, future, places) if log2 else None
                    skill = [skills[name][future, value].skill for value in known]
                    lines[future][name] = Line([places[value] for value in known], skill, fit)
            texts = [
                (place, f"{value}\n{place:,.0f}" if isinstance(value, str) else f"{value:,}")
                for value, place in places.items()
            ]
            return skill_by_figure(
                lines, self.style, _label(metric, reference), title, texts, log2=log2
            )

        caption = f"{skill_by_title(table)}."
        if log2:
            caption += (
                " Points are skills (set a little apart sideways), lines their least-squares "
                "trends on log2 of the axis."
            )
        return self._both(table, caption, draw, skill_by_title(table))

    def systems(self) -> Picture | None:
        """Bars of both futures by system."""
        columns = self.tables["by_system"].columns
        systems = [column.key for column in columns if column.group == "Skill (%)"][:-1]

        def draw(metric: str, reference: str) -> Any:
            rows = self._rows("by_system", metric, reference)
            panels = {
                system: [
                    (row["model"], row[f"replay_{system}"], row[f"novel_{system}"]) for row in rows
                ]
                for system in systems
            }
            return system_figure(panels, _label(metric, reference))

        caption = "Skill on Replay and Novel futures of each system, sorted by Replay."
        return self._both("by_system", caption, draw, "Replay and Novel skill by system")

    def gap(self) -> Picture | None:
        """Heat map of the gap."""
        systems = [column.key for column in self.tables["gap"].columns][1:-1]

        def draw(metric: str, reference: str) -> Any | None:
            rows = self._rows("gap", metric, reference)
            if not rows:
                return None
            values = np.array([[_number(row[one]) for one in [*systems, "mean"]] for row in rows])
            return gap_figure([row["model"] for row in rows[:-1]], systems, values)

        caption = "Replay skill minus Novel skill; last column and row are means."
        return self._both("gap", caption, draw, "Gap between Replay and Novel skill")

    def pairwise(self) -> Picture | None:
        """Heat map of pairwise win rates, one variant a metric."""
        if "pairwise" not in self.tables:
            return None
        files = []
        for metric in ("wql", "wape"):
            rows = self._rows("pairwise", metric)
            names = [row["model"] for row in rows]
            values, low, high = (
                np.array([[_number(row.get(name + end)) for name in names] for row in rows])
                for end in ("", "_low", "_high")
            )
            made = pairwise_figure(names, values, low, high)
            title = "Win rate of each model against each other"
            files.append(self._file(made, f"pairwise_{metric}", metric, None, title))
        caption = (
            "Win rate (%) of the row's model against the column's, with its 95 % bootstrap "
            "interval; sorted by mean win rate."
        )
        return Picture("pairwise", caption, files)

    def fewest_most(self) -> Picture | None:
        """Slopes from the fewest to the most events."""

        def draw(metric: str, reference: str) -> Any | None:
            cells: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
            for row in self._rows("fewest_most", metric, reference):
                ends = (row["fewest"], row["most"])
                cells.setdefault((row["future"], row["system"]), {})[row["model"]] = ends
            systems = sorted({system for _, system in cells}, key=lambda one: (one == "all", one))
            if not systems:
                return None
            return fewest_most_figure(cells, systems, self.style, _label(metric, reference))

        caption = "Skill with the fewest and the most events, all else equal."
        return self._both("fewest_most", caption, draw, "Skill with fewest and most events")


def _label(metric: str, reference: str) -> str:
    return f"Skill against {reference}, {_NAMES[metric]} (%)"


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)

"""What the report shows, in its order, and what it calls it."""

from typing import NamedTuple

__all__ = [
    "AXES",
    "DASH",
    "FUTURES",
    "INFORMED_MARK",
    "MEAN_OVER_MODELS",
    "METRIC_LABELS",
    "MINUS",
    "REFERENCES",
    "SPLITS",
    "SYSTEMS",
    "Axis",
    "Switches",
]

METRIC_LABELS = {"wql": "wQL", "wape": "WAPE"}  # of the four metrics, those that are shown
REFERENCES = ("naive", "linear")  # the paper's two (Table 18)
FUTURES = ("replay", "novel")
SYSTEMS = ("opendc", "gridlabd", "epanet", "sumo")  # the paper's order
SPLITS = ("zero-shot", "left-out system", "in distribution", "unknown")  # ranked apart, in order
INFORMED_MARK = "†"
MEAN_OVER_MODELS = "mean over models"  # the last row of a table that has one

MINUS = "\N{MINUS SIGN}"  # as numbers are set in print
DASH = "\N{EN DASH}"  # in place of a missing value


class Switches(NamedTuple):
    """What the page's switches choose; no reference, or metric, where it does not matter."""

    metric: str
    reference: str = ""

    @property
    def label(self) -> str:
        """Metric and reference in words."""
        against = f" against {self.reference}" if self.reference else ""
        return f"{METRIC_LABELS.get(self.metric, '')}{against}"

    @property
    def skill_label(self) -> str:
        """What stands beside an axis of skill."""
        return f"Skill against {self.reference}, {METRIC_LABELS[self.metric]} (%)"


class Axis(NamedTuple):
    """An axis of the manifest that skill is shown along."""

    column: str  # of the manifest
    table: str  # name of the table and figure
    label: str
    unit: str = ""
    log2: bool = True  # whether there is a trend, on log2 of the axis

    @property
    def title(self) -> str:
        """Of the table and the figure."""
        return f"Skill by {self.label[0].lower()}{self.label[1:]}"

    @property
    def label_with_unit(self) -> str:
        """What stands beside the axis."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


AXES = (
    Axis("k", "skill_by_k", "Number of covariates", log2=False),
    Axis("n_events", "skill_by_events", "Number of events in the history"),
    Axis("event_length", "skill_by_event_length", "Event length", "steps"),
    Axis("context_pair", "skill_by_context", "Context", "nominal steps"),
)

"""Scores of estimates with bootstrap by episode: of a whole suite, and of parts of it.

A score is held as an array [1 + R]: itself, then its value on each of R resamples of the suite's
episodes, all queries of each together. Baselines on the same episodes share the resamples, and so
do variants of a suite with as many episodes; so the difference of two such arrays has the interval
of the difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from whatif_jax.comparison.bootstrap import resample_counts, resampled_means
from whatif_jax.tscm.scores import ScoreTerms, score_terms, scores_of

from .results import Estimates

__all__ = ["ALL", "AXES", "METRICS", "Group", "Metric", "Scored", "statistics"]

Group = tuple[str, str | int]  # an axis and a value of it
ALL: Group = ("all", "")
AXES = ("structure", "regimes", "tier", "offset", "part")


_terms = jax.jit(score_terms)


class Metric(NamedTuple):
    """One score against one truth."""

    key: str
    label: str
    pair: str  # of `_pairs`
    score: str  # of `whatif_jax.tscm.scores.Scores`


METRICS = tuple(
    Metric(f"{pair}_{score}", label, pair, score)
    for pair, score, label in (
        ("interventional", "rmse", "RMSE, interventional"),
        ("interventional", "nmse", "NMSE, interventional"),
        ("interventional", "direction", "Direction, interventional"),
        ("counterfactual", "rmse", "RMSE, counterfactual"),
        ("counterfactual", "nmse", "NMSE, counterfactual"),
        ("counterfactual", "direction", "Direction, counterfactual"),
        ("effect", "rmse", "RMSE of the effect"),
        ("effect", "nmse", "NMSE of the effect"),
        ("effect", "direction", "Direction of the effect"),
        ("change", "direction", "Direction, forecast less factual"),
    )
)


class Scored(NamedTuple):
    """Scores of one baseline on some queries."""

    scores: Mapping[str, np.ndarray]  # [1 + R] by key of `METRICS`
    episodes: int
    queries: int
    dead: Mapping[str, int]  # by pair: queries whose target has no direction
    failed: int  # queries without a finite forecast


def statistics(
    estimates: Iterable[Estimates], *, key: PRNGKeyArray, resamples: int = 1000
) -> dict[str, dict[Group, Scored]]:
    """Scores of every baseline on one suite: of all its episodes, and by value of `AXES`.

    Args:
        estimates: on one suite, or on one of its variants.
        key: of the resamples.
        resamples: R.

    Returns:
        by name of the baseline, then by group.
    """
    same: dict[bytes, list[Estimates]] = {}
    for one in estimates:
        same.setdefault(one.column("episode").tobytes(), []).append(one)
    found: dict[str, dict[Group, Scored]] = {}
    for some in same.values():
        found |= _of_episodes(some, key, resamples)
    return found


def _pairs(one: Estimates) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Forecasts and their targets."""
    column = one.column
    counterfactual, factual = column("counterfactual"), column("factual")
    effect = counterfactual - factual
    return {
        "interventional": (column("estimated_interventional"), column("interventional")),
        "counterfactual": (column("estimated_counterfactual"), counterfactual),
        "effect": (column("estimated_effect"), effect),
        # as the package scores the direction of the effect: with the factual value, unknown to the
        # forecaster, taken from its forecast
        "change": (column("estimated_counterfactual") - factual, effect),
    }


def _groups(one: Estimates) -> dict[Group, np.ndarray]:
    """Rows of each group; an axis of one value is none, nor are parts that another axis names."""
    found = {ALL: np.arange(len(one.table))}
    for axis in AXES:
        values, place = np.unique(one.column(axis).astype(_kind(axis)), return_inverse=True)
        named = axis == "part" and any(name in ("structure", "regimes") for name, _ in found)
        if len(values) > 1 and not named:
            order = np.argsort(place, kind="stable")
            parts = np.split(order, np.cumsum(np.bincount(place))[:-1])
            found |= {(axis, value.item()): part for value, part in zip(values, parts, strict=True)}
    return found


def _kind(axis: str) -> str:
    return "U" if axis in ("part", "structure") else "i8"


def _of_episodes(
    some: Sequence[Estimates], key: PRNGKeyArray, resamples: int
) -> dict[str, dict[Group, Scored]]:
    """Of baselines with the same episodes."""
    fields = list(ScoreTerms.__dataclass_fields__)
    columns: list[np.ndarray] = []
    places: dict[tuple[str, str], list[int]] = {}  # columns of a baseline's pair, by field
    for one in some:
        for pair, (forecast, target) in _pairs(one).items():
            terms = _terms(jnp.asarray(forecast), jnp.asarray(target))
            added = {field: np.asarray(getattr(terms, field), np.float64) for field in fields}
            # in float64: a square rounded to float32 gives targets that are equal a variance
            added["squared_target"] = added["target"] ** 2
            columns += added.values()
            places[one.name, pair] = list(range(len(columns) - len(fields), len(columns)))
    groups = _groups(some[0])
    members = list(groups.values())
    _, episode = np.unique(some[0].column("episode"), return_inverse=True)
    contributions, where = _distinct(columns)
    means = np.stack([contributions[rows].mean(axis=0) for rows in members])
    counts = resample_counts(int(episode.max()) + 1, resamples, key=key)
    drawn = resampled_means(contributions, episode, members, counts)
    every = np.concatenate([means[None], drawn])  # [1 + R, G, F]
    alone = [len(np.unique(episode[rows])) == 1 for rows in members]
    every[1:, alone] = np.nan  # its resamples are all alike, and say nothing
    found: dict[str, dict[Group, Scored]] = {}
    for one in some:
        scores: dict[str, np.ndarray] = {}
        totals: dict[str, dict[str, np.ndarray]] = {}
        for pair in _PAIRS:
            parts: dict[str, Any] = {
                field: every[:, :, where[place]]
                for field, place in zip(fields, places[one.name, pair], strict=True)
            }
            found_scores = scores_of(ScoreTerms(**parts))
            for metric in METRICS:
                if metric.pair == pair:
                    scores[metric.key] = getattr(found_scores, metric.score)
            totals[pair] = {field: values[0] for field, values in parts.items()}
        found[one.name] = {
            group: _scored(scores, totals, place, rows, episode)
            for place, (group, rows) in enumerate(groups.items())
        }
    return found


_PAIRS = tuple(dict.fromkeys(metric.pair for metric in METRICS))


def _scored(
    scores: Mapping[str, np.ndarray],
    means: Mapping[str, Mapping[str, np.ndarray]],
    place: int,
    rows: np.ndarray,
    episode: np.ndarray,
) -> Scored:
    size = len(rows)
    return Scored(
        {key: values[:, place] for key, values in scores.items()},
        len(np.unique(episode[rows])),
        size,
        {pair: round(size * (1 - float(one["directed"][place]))) for pair, one in means.items()},
        round(size * max(float(one["failed"][place]) for one in means.values())),
    )


def _distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, Mapping[int, int]]:
    """The columns that differ, and which of them each column is: targets are of all baselines."""
    known: dict[bytes, int] = {}
    kept: list[np.ndarray] = []
    where: dict[int, int] = {}
    for number, column in enumerate(columns):
        mark = column.tobytes()
        if mark not in known:
            known[mark] = len(kept)
            kept.append(column)
        where[number] = known[mark]
    return np.stack(kept, axis=1), where

"""What must come out, whatever the suite: computed, each by a rule that is stated."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from whatif_jax import root_key

from ..paper.findings import Finding, verdict_of
from ..paper.resamples import decide, ends
from ..report.tables import Column, Table
from .board import PRIOR, Board
from .cases import CASES
from .results import Estimates
from .statistics import ALL, Group, statistics

__all__ = ["checks"]

Row = dict[str, Any]
_NOTE = (
    "Undecided: the 95 % bootstrap interval of the change, below it, reaches over zero. Episodes "
    "are drawn, the same for both sides."
)
_NO_EFFECT, _LINEAR = "observed_confounder", "instrumental_variable"
_OBSERVED = ("observed_discrete", "observed_normal", "observed_uniform")


def checks(board: Board) -> list[Finding]:
    """What must come out, and whether it does."""
    return [
        _check(
            "oracle",
            "The oracle's error is 0.",
            "RMSE of the oracle against each truth is exactly 0, and no forecast failed.",
            ("RMSE wanted", "RMSE"),
            _oracle(board),
        ),
        _check(
            "no_effect",
            "On the observed confounder, where the treatment has no effect, back-door adjustment "
            "recovers none while plain regression sees one.",
            "RMSE of the effect, whose truth is exactly 0: the adjusted one is smaller. In short "
            "histories the error of both is mostly noise; in long ones the bias is left.",
            ("Plain regression", "Back door"),
            _adjusted(board),
        ),
        _check(
            "instrument",
            "Two-stage least squares beats ordinary least squares on the linear instrumental "
            "variable.",
            "RMSE of the effect, mechanisms all linear, the hidden confounder at work; of all "
            "episodes, where a weak instrument has the method give no effect, and of those where "
            "it is not weak. In short histories variance outweighs the bias that it removes. Both "
            "have the error that the treatment's own value at the step leaves, which none knows.",
            ("Ordinary", "Two-stage"),
            _instrument(board),
        ),
        _check(
            "mean",
            "Back-door adjustment falls to the mean of the outcome on structures it does not fit.",
            "Every estimate there is equal to the mean's, and its effect is 0. RMSE beside.",
            ("Mean", "Back door"),
            _falls_to_mean(board),
        ),
        _check(
            "decay",
            "In continuous time the counterfactual effect decays after the window.",
            "Root mean square of the true effect at each offset against the one before it.",
            ("Earlier", "Later"),
            _decay(board),
        ),
        _check(
            "values",
            "Observed values of the treatment are easier than the prior's.",
            "RMSE against the interventional run, on the same worlds, of every baseline that reads "
            "the series.",
            ("Prior", "Observed"),
            _values(board),
        ),
    ]


def _oracle(board: Board) -> Iterator[Row]:
    for label in board.plain:
        found = board.get(label, "oracle")
        for pair in ("interventional", "counterfactual", "effect"):
            if found is not None:
                error = found.scores[f"{pair}_rmse"]
                holds = "yes" if error[0] == 0.0 and not found.failed else "no"
                yield {"model": f"{label}, {pair}", "first": 0.0, "second": float(error[0]),
                       "holds": holds}  # fmt: skip


def _adjusted(board: Board) -> Iterator[Row]:
    group: Group = ("structure", _NO_EFFECT)
    for label in (board.label("identifiability"), board.label("long")):
        for ending in _endings(board):
            plain, adjusted = (
                board.array(label, f"{name}{ending}", "effect_rmse", group)
                for name in ("regression", "back_door")
            )
            paired = _paired(board, (label, f"regression{ending}"), (label, f"back_door{ending}"))
            if plain is not None and adjusted is not None and paired:
                yield _row(f"{_steps(board, label)}{ending}", plain, adjusted)


def _instrument(board: Board) -> Iterator[Row]:
    for label in map(board.label, CASES):
        for ending in _endings(board):
            names = [f"{name}{ending}" for name in ("regression", "instrument")]
            if not all(name in board.estimates.get(label, {}) for name in names):
                continue
            both = [board.estimates[label][name] for name in names]
            linear = both[1].column("structure") == _LINEAR
            strong = linear & (both[1].column("estimated_effect") != 0.0)
            for rows, text in ((linear, ""), (strong, ", where the instrument is not weak")):
                found = _on(both, rows, board.resamples)
                if found:
                    yield _row(f"{_steps(board, label)}{ending}{text}", *found)


def _steps(board: Board, label: str) -> str:
    return f"{label}, {board.suites[label].steps:,} steps"


def _on(both: Sequence[Estimates], rows: np.ndarray, resamples: int) -> list[np.ndarray]:
    """Errors of effects on some rows; none where the baselines have other rows."""
    episodes = [one.column("episode") for one in both]
    if not np.array_equal(episodes[0], episodes[1]) or not rows.any():
        return []
    some = [dataclasses.replace(one, table=one.table.filter(pa.array(rows))) for one in both]
    found = statistics(some, key=root_key(0), resamples=resamples)
    return [found[one.name][ALL].scores["effect_rmse"] for one in some]


def _endings(board: Board) -> list[str]:
    """Of names of baselines: one for each kind of evidence."""
    return list(dict.fromkeys(name.removeprefix(name.split(" ")[0]) for name in board.order))


def _falls_to_mean(board: Board) -> Iterator[Row]:
    for label in board.plain:
        some = board.estimates[label]
        if "mean" not in some or "back_door" not in some:
            continue
        mean, adjusted = some["mean"], some["back_door"]
        if not np.array_equal(mean.column("episode"), adjusted.column("episode")):
            continue
        structure = mean.column("structure").astype("U")
        for name in dict.fromkeys(structure.tolist()):
            if name in adjusted.about["fits"]:
                continue
            rows = structure == name
            same = all(
                np.array_equal(mean.column(column)[rows], adjusted.column(column)[rows])
                for column in ("estimated_interventional", "estimated_effect")
            )
            group: Group = ("structure", name)
            if board.array(label, "mean", "interventional_rmse", group) is None:
                group = ALL
            first, second = (
                board.array(label, one, "interventional_rmse", group)
                for one in ("mean", "back_door")
            )
            if first is not None and second is not None:
                row = _row(f"{label}, {name or 'no structure'}", first, second)
                yield row | {"holds": "yes" if same else "no"}


def _decay(board: Board) -> Iterator[Row]:
    label = board.label("continuous")
    if not label:
        return
    # the error of a forecast of no effect is the effect
    none = next((name for name in ("zero", "mean", "last") if name in board.of(label)), "")
    for earlier, later in itertools.pairwise(board.groups(label, "offset")):
        first, second = (
            board.array(label, none, "effect_rmse", group) for group in (earlier, later)
        )
        if first is not None and second is not None:
            yield _row(f"{earlier[1]} to {later[1]} steps after the window", first, second)


def _values(board: Board) -> Iterator[Row]:
    labels = board.variants("identifiability")
    for mode in _OBSERVED:
        if mode not in labels or PRIOR not in labels:
            continue
        for model in board.of(labels[mode]):
            if model in ("zero", "oracle"):
                continue
            prior, observed = (
                board.array(labels[one], model, "interventional_rmse") for one in (PRIOR, mode)
            )
            paired = _paired(board, (labels[PRIOR], model), (labels[mode], model))
            if prior is not None and observed is not None and paired:
                yield _row(f"{model}, {mode.replace('_', ' ')}", prior, observed)


def _paired(board: Board, *sides: tuple[str, str]) -> bool:
    """Whether baselines have the same episodes: else a change is of episodes, not of methods."""
    found = [board.estimates.get(label, {}).get(model) for label, model in sides]
    known = [one.column("episode") for one in found if one is not None]
    return len(known) == len(sides) and all(np.array_equal(known[0], one) for one in known[1:])


def _row(what: str, first: np.ndarray, second: np.ndarray) -> Row:
    """Whether the second is smaller."""
    change = second - first
    low, high = ends(change)
    return {
        "model": what,
        "first": float(first[0]),
        "second": float(second[0]),
        "change": float(change[0]),
        "change_low": low,
        "change_high": high,
        "holds": decide(change, high=0.0),
    }


def _check(
    name: str, claim: str, rule: str, labels: tuple[str, str], found: Iterable[Row]
) -> Finding:
    columns = [
        Column("model", "What"),
        Column("first", labels[0], "number"),
        Column("second", labels[1], "number"),
        Column("change", "Change", "number", "", (("change_low", "change_high"),)),
        Column("holds", "Holds"),
    ]
    rows = list(found)
    table = Table.of_rows(f"check_{name}", claim, columns, rows, _NOTE if rows else "")
    verdict, summary = verdict_of(rows)
    if len(rows) == 1 and rows[0].get("change") is not None:
        one = rows[0]
        summary = f"{one['first']:.3f} against {one['second']:.3f}."
    return Finding(name, claim, rule, verdict, summary, table)

"""Episodes of temporal causal worlds as rows: the columns, and a table of a batch.

The first twelve columns are those of dotime 0.2.0, so that its loader reads them; the others are
ours, and its loader leaves them out.
"""

import json
from collections.abc import Sequence

import jax
import numpy as np
import pyarrow as pa

from .._types import Float, Int
from ..tscm import Episode, EpisodePart, structures
from ..tscm.names import KINDS, SHAPES, VALUES
from .columns import Column, schema_of

__all__ = ["EPISODE_COLUMNS", "SCHEMA_COLUMNS", "columns_of", "rows_of"]

_FLOATS, _WHOLE, _TEXT = pa.list_(pa.float64()), pa.list_(pa.int64()), pa.string()

SCHEMA_COLUMNS = (
    Column("scm_id", pa.int64(), "number of the episode in its suite, from 0"),
    Column("structure", _TEXT, "named graph, or `regime_` and a number of regimes; empty if none"),
    Column("tier", pa.int64(), "difficulty, 1 to 3"),
    Column("n_vars", pa.int64(), "columns of the series"),
    Column("length", pa.int64(), "steps of the series"),
    Column("x_obs", _FLOATS, "factual run, row-major [length][n_vars]"),
    Column("x_int", _FLOATS, "run under the intervention, fresh noise [length][n_vars]"),
    Column("intervention_json", _TEXT, "targets (columns), steps, kind and values"),
    Column("query_target", _WHOLE, "column asked for, once a query"),
    Column("query_time", _FLOATS, "step asked for, counted from 0, once a query"),
    Column("y_true", _FLOATS, "`x_int` there: level 2, interventional"),
    Column("metadata_json", _TEXT, "tier, rows of the queries, regimes, origin of values"),
)
EPISODE_COLUMNS = (
    *SCHEMA_COLUMNS,
    Column(
        "x_counterfactual",
        _FLOATS,
        "run under the intervention, noise of `x_obs`, equal to it before the onset",
    ),
    Column("y_counterfactual", _FLOATS, "`x_counterfactual` there: level 3"),
    Column("part", _TEXT, "part of the suite: which prior"),
    Column("variables", pa.list_(_TEXT), "name of each column: a node of the graph"),
    Column("hidden", pa.list_(pa.bool_()), "of each column: hidden, and 0 throughout"),
    Column("onset", pa.int64(), "first step of the intervention"),
    Column("window", pa.int64(), "steps of the intervention"),
    Column("redraws", pa.int64(), "attempts before this one that left the prior's limit"),
)

_TYPES = {"hard": "hard", "soft": "soft", "varying": "time_varying"}
_SIZE = 2.0  # of the profiles that dotime knows by name
_PROFILES = ("step", "ramp", "sine")


def columns_of(part: EpisodePart) -> tuple[list[int], list[str]] | None:
    """Nodes and names of a structure's columns: treatment first, outcome last, hidden ones inside.

    None for random graphs and chains: their visible nodes in order.
    """
    if not part.structure:
        return None
    names = structures()[part.structure].names()
    treatment, outcome = names.index("A"), names.index("Y")
    inner = [place for place in range(len(names)) if place not in (treatment, outcome)]
    order = [treatment, *inner, outcome]
    return order, [names[place] for place in order]


def rows_of(part: EpisodePart, numbers: Int[np.ndarray, " B"], episode: Episode) -> pa.Table:
    """A row for each episode of a batch.

    Args:
        part: of the suite.
        numbers: of the episodes.
        episode: the episodes, with a leading axis.
    """
    episode = jax.device_get(episode)
    count, steps, nodes = episode.factual.shape
    visible = np.asarray(episode.scm.node & ~episode.scm.latent)
    runs = [
        np.asarray(run) for run in (episode.factual, episode.interventional, episode.counterfactual)
    ]
    layout = columns_of(part)
    if layout is None:
        place = np.cumsum(visible, axis=1) - 1  # column of a visible node
        sizes = place[:, -1] + 1
        flat = [run[np.broadcast_to(visible[:, None], run.shape)] for run in runs]
        names = np.char.add("x", np.arange(nodes).astype(str))
        labels = np.broadcast_to(names, (count, nodes))[visible].tolist()
        hidden = np.zeros(len(labels), bool)
    else:
        order, own = layout
        place = np.broadcast_to(np.argsort(order), (count, nodes))
        sizes = np.full(count, nodes)
        flat = [np.where(visible[:, None], run, 0.0)[:, :, order].ravel() for run in runs]
        labels, hidden = own * count, ~visible[:, order].ravel()
    row = np.arange(count)
    asked = np.asarray(episode.query.steps)
    node = np.asarray(episode.query.node)
    truths = [run[row[:, None], asked, node[:, None]] for run in runs]
    target = np.repeat(place[row, node], asked.shape[1])
    tiers = part.tiers(episode)
    act = episode.intervention
    regimes = part.prior.regimes.number
    label = f"regime_{regimes[0]}" if len(regimes) == 1 and regimes[0] > 1 else part.structure
    values: dict[str, object] = {
        "scm_id": numbers,
        "structure": [label] * count,
        "tier": tiers,
        "n_vars": sizes,
        "length": np.full(count, steps),
        "x_obs": _lists(flat[0], sizes * steps),
        "x_int": _lists(flat[1], sizes * steps),
        "intervention_json": _interventions(episode, place, part),
        "query_target": _lists(target, np.full(count, asked.shape[1]), np.int64),
        "query_time": _lists(asked.ravel(), np.full(count, asked.shape[1])),
        "y_true": _lists(truths[1].ravel(), np.full(count, asked.shape[1])),
        "metadata_json": _metadata(episode, tiers),
        "x_counterfactual": _lists(flat[2], sizes * steps),
        "y_counterfactual": _lists(truths[2].ravel(), np.full(count, asked.shape[1])),
        "part": [part.name] * count,
        "variables": _of(pa.array(labels, _TEXT), sizes),
        "hidden": _of(pa.array(hidden), sizes),
        "onset": act.onset,
        "window": act.length,
        "redraws": episode.redraws,
    }
    columns = [
        found if isinstance(found, pa.Array) else pa.array(found, column.type)
        for column, found in ((column, values[column.name]) for column in EPISODE_COLUMNS)
    ]
    return pa.table(columns, schema=schema_of(EPISODE_COLUMNS))


def _lists(
    flat: Float[np.ndarray, " n"] | Int[np.ndarray, " n"],
    sizes: Int[np.ndarray, " B"],
    kind: type = np.float64,
) -> pa.ListArray:
    return _of(pa.array(flat.astype(kind)), sizes)


def _of(values: pa.Array, sizes: Int[np.ndarray, " B"]) -> pa.ListArray:
    """Lists of some sizes, one after the other; no value is copied."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _interventions(episode: Episode, place: Int[np.ndarray, "B N"], part: EpisodePart) -> list[str]:
    """`InterventionSpec.to_dict` of dotime as JSON: one text an episode.

    Profiles that it knows go by their names. Free ones and those held within the values seen
    before go as a value for each step and target, which it reads as a tensor.
    """
    act = episode.intervention
    steps = [str(step) for step in range(act.active.shape[1])]
    named = part.prior.intervention.value == _SIZE
    columns = zip(
        act.kind.tolist(), act.shape.tolist(), act.mode.tolist(), act.targets.tolist(),
        act.onset.tolist(), act.length.tolist(), act.values, place, strict=True,
    )  # fmt: skip
    found = []
    for kind, shape, mode, targets, onset, length, values, own in columns:
        real = [target for target in targets if target >= 0]
        window = values[onset : onset + length, : len(real)]
        profile = SHAPES[shape]
        if KINDS[kind] != "varying" and np.all(window == window[0, 0]):
            said = f'{{"kind": "scalar", "data": {float(window[0, 0])!r}}}'
        elif (
            KINDS[kind] == "varying"
            and named
            and profile in _PROFILES
            and VALUES[mode] != "positivity_aware"
        ):
            said = json.dumps({"kind": "profile", **_profile(profile, onset, length)})
        else:
            said = json.dumps({"kind": "tensor", "data": window.astype(float).tolist()})
        found.append(
            f'{{"targets": {[int(own[target]) for target in real]}, '
            f'"times": [{", ".join(steps[onset : onset + length])}], '
            f'"intervention_type": "{_TYPES[KINDS[kind]]}", "values": {said}}}'
        )
    return found


def _profile(name: str, onset: int, length: int) -> dict[str, object]:
    if name == "step":
        return {"name": "StepIntervention", "params": {"step_time": onset + length // 2}}
    if name == "ramp":
        params: dict[str, float] = {"start_time": onset, "intervention_length": length}
        return {"name": "RampIntervention", "params": params}
    return {
        "name": "SineIntervention",
        "params": {"start_time": onset, "freq": 2 * np.pi / length},
    }


def _metadata(episode: Episode, tiers: Int[np.ndarray, " B"]) -> list[str]:
    """What dotime keeps beside an episode; `query_time_idx` tells its loader the rows asked for."""
    act = episode.intervention
    columns: Sequence[list] = (
        tiers.tolist(), np.asarray(episode.query.steps).tolist(), act.mode.tolist(),
        (act.onset + act.length - 1).tolist(), episode.scm.regimes.tolist(),
    )  # fmt: skip
    return [
        f'{{"tier": {tier}, "query_time_idx": {rows}, "diverged": false, '
        f'"pair_mode": "interventional", "value_mode": "{VALUES[mode]}", '
        f'"window_end_idx": {last}, "n_regimes": {regimes}}}'
        for tier, rows, mode, last, regimes in zip(*columns, strict=True)
    ]

"""Splits: what each stream holds; and nothing of the benchmark in `randomised`."""

from pathlib import Path

import numpy as np
import pytest

import whatif_jax
from whatif_jax import SPLITS, RandomisedStream, TaskStream, load_systems, training_stream
from whatif_jax.tasks.systems import LEFT_PADDING

FOLDER = Path(whatif_jax.__file__).parent / "tasks" / "randomised"
SMALL = dict(batch_size=16, buckets=[(256, 32)])


def test_the_split_says_what_a_stream_holds():
    found = {
        "randomised": training_stream("randomised", 0, **SMALL),
        "leave-one-system-out": training_stream(
            "leave-one-system-out", 0, left_out="epanet", **SMALL, event_lengths=[32]
        ),
        "in-distribution": training_stream("in-distribution", 0, **SMALL, event_lengths=[32]),
    }
    assert set(found) == set(SPLITS)
    for split, stream in found.items():
        assert stream.describe()["split"] == split
    randomised, left, whole = (found[split] for split in SPLITS)
    assert isinstance(randomised, RandomisedStream) and isinstance(whole, TaskStream)
    assert not randomised.describe()["trains_on_the_suite"]
    assert left.describe()["left_out"] == ["epanet"]
    assert whole.describe()["trains_on_the_suite"] and whole.describe()["left_out"] == []
    assert "training on the suite" in whole.describe()["holds"]
    assert [stream.describe()["trained_on"] for stream in (randomised, left, whole)] == [
        "randomised", "left-out-system", "in-distribution",
    ]  # fmt: skip
    assert set(randomised.describe()) <= set(whole.describe())


@pytest.mark.parametrize("name", ["opendc", "gridlabd", "epanet", "sumo"])
def test_nothing_of_a_system_left_out_is_there(systems, name):
    stream = training_stream("leave-one-system-out", 0, left_out=name, **SMALL, event_lengths=[32])
    held, own = stream.systems, load_systems(name)
    assert name not in held.systems and len(held.systems) == 3
    assert not {target for target in held.targets if target[0] == name}
    there, whole = 0, np.asarray(systems.values)
    values = np.asarray(held.values)
    for row, length in enumerate(np.asarray(own.length)):
        place = slice(LEFT_PADDING, LEFT_PADDING + length)  # arrays are as wide as their longest
        series = np.asarray(own.values)[row, place]
        if np.ptp(series) > 0:
            assert not (values[:, place] == series[None, :]).all(axis=1).any()
            there += (whole[:, place] == series[None, :]).all(axis=1).any()
    assert there > 5  # what is there is found
    assert not any(target.startswith(f"{name}/") for target in stream.describe()["targets"])


@pytest.mark.parametrize(
    "words, change",
    [
        ("^split: 'zero'; expected", {"split": "zero"}),
        ("^left_out: None; expected", {"split": "leave-one-system-out"}),
        ("^left_out: 'epanett'; expected .*epanet", {
            "split": "leave-one-system-out", "left_out": "epanett",
        }),
        ("^left_out: 'epanet'; expected None", {"split": "randomised", "left_out": "epanet"}),
        ("^systems: given; expected none", {"split": "in-distribution", "systems": ["sumo"]}),
    ],
)  # fmt: skip
def test_splits_that_are_none_are_refused(words, change):
    with pytest.raises(ValueError, match=words):
        training_stream(**({"key": 0} | SMALL | change))


def test_no_series_of_the_benchmark_enters_randomised(systems):
    """No stretch of 64 steps of a randomised baseline is one of the benchmark's, in any unit.

    Compared after taking away level and scale, to a correlation of 0.9999, with benchmark windows
    at every 16th step: noise or a straight line correlates too, so only stretches that bend count.
    """
    stream = training_stream("randomised", 0, **SMALL, hard_cases={})
    rows = [np.asarray(stream.batch_at(step).drawn.baseline)[:, 100:164] for step in range(4)]
    own = np.concatenate(rows)
    lengths = np.asarray(systems.length)
    windows = np.concatenate([
        np.lib.stride_tricks.sliding_window_view(
            np.asarray(systems.values)[row, LEFT_PADDING : LEFT_PADDING + length], 64
        )[::16]
        for row, length in enumerate(lengths)
    ])  # fmt: skip

    def unit(values):
        time = np.linspace(-1, 1, values.shape[1])
        flat = values - values.mean(axis=1, keepdims=True)
        slope = (flat @ time) / (time @ time)
        bent = flat - slope[:, None] * time[None, :]
        size = np.linalg.norm(bent, axis=1)
        keep = size > 1e-2 * np.maximum(np.abs(values).max(axis=1), 1e-9)
        return bent[keep] / size[keep, None]

    ours, theirs = unit(own.astype(np.float64)), unit(windows.astype(np.float64))
    assert len(ours) > 20 and len(theirs) > 10_000
    assert (theirs @ theirs[5]).max() > 0.9999  # what is there is found
    assert (ours @ theirs.T).max() < 0.9999


def test_no_target_or_covariate_of_the_benchmark_is_named_in_randomised(systems):
    names = {target for _, target in systems.targets} | {
        name for of_system in systems.covariates for name in of_system
    }
    common = {"length", "period", "phase", "multiplier", "offset", "width", "height", "temperature"}
    for path in (*FOLDER.glob("*.py"), *FOLDER.glob("*.toml")):
        text = path.read_text("utf-8")
        for name in names - common:
            assert name not in text.split(), f"{path.name} names {name}"

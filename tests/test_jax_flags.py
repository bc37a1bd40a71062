"""The same tasks, scores and gradients under every setting of JAX that projects choose."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax import (
    RandomisedStream,
    TaskStream,
    bootstrap,
    error_table,
    evaluate,
    load_suite,
    load_systems,
    realize,
    root_key,
    sample_task,
    skill_scores,
    with_factors,
)
from whatif_jax.export import export

FLAGS = {
    "strict dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "rank promotion refused": lambda: jax.numpy_rank_promotion("raise"),
    "64 bits": lambda: jax.enable_x64(True),
    "another threefry mode": lambda: jax.threefry_partitionable(False),
    "another generator": lambda: jax.default_prng_impl("rbg"),
    "NaN refused": lambda: jax.debug_nans(True),
    "no jit": jax.disable_jit,
}


def naive(history, covariates, horizon, levels):
    assert history.dtype == covariates.dtype == np.float32
    return np.repeat(history[:, -1:, None], horizon, axis=1)


def a_stream_batch():
    stream = TaskStream(
        key=0, batch_size=4, buckets=[(256, 64)], systems=["epanet"], event_lengths=[32],
        shapes=["bell", "ramp", "half_sine"], factor_range=(0.2, 5.0),
    )  # fmt: skip
    return stream.check(stream.batch_at(3))


def a_randomised_batch():
    stream = RandomisedStream(key=0, batch_size=16, buckets=[(256, 32)])
    batch = stream.check(stream.batch_at(3))
    return batch.task, batch.drawn.events, batch.hard_cases


def a_suite_batch():
    suite = load_suite().where(system="epanet", target="pressure_10", k=2, context_pair="C1")
    return suite.batch(suite.batch_ids(4)[0]).to_numpy()


def a_task():
    systems = load_systems("epanet")
    return sample_task(
        systems, "epanet", "pressure_10", k=3, key=root_key(4), context=256, event_length=32
    )


def an_evaluation():
    suite = load_suite().where(system="epanet", target="pressure_10", k=2, context_pair="C1")
    suite = suite.take(range(12))
    scores = evaluate(naive, suite, batch_size=8).scores
    table = error_table({"naive": scores, "again": scores}, suite, metric="wql")
    interval = bootstrap(table, skill_scores, key=root_key(0), resamples=20)
    return scores.drop(["task_id"]).to_pandas(), interval.lower


def a_gradient():
    suite = load_suite().where(system="epanet", target="pressure_10", k=2, context_pair="C1")
    systems, spec = suite.systems, suite.spec(int(suite.column("task_id")[0]))

    def mean(factors):
        return jnp.mean(realize(with_factors(spec, factors), systems).future)

    return jax.jit(jax.grad(mean))(spec.future_factors)


def an_export():
    """Every byte of the files."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = load_suite().where(system="epanet", target="pressure_10", k=2, context_pair="C1")
        out = export(tasks.take(range(4)), Path(folder) / "out", progress=False)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return {path.name: np.frombuffer(path.read_bytes(), np.uint8) for path in files}


MAKERS = (
    an_export,
    a_stream_batch,
    a_randomised_batch,
    a_suite_batch,
    a_task,
    an_evaluation,
    a_gradient,
)


@pytest.fixture(scope="module")
def expected():
    return {make.__name__: make() for make in MAKERS}


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "flag",
    [pytest.param(flag, marks=pytest.mark.slow if flag == "no jit" else ()) for flag in FLAGS],
)
def test_a_flag_changes_nothing(flag, make, expected):
    """Whole numbers and types to the bit; float32 to rounding (1e-6), as other fusions round."""
    with FLAGS[flag]():
        found = jax.tree.leaves(_arrays(make()))
    for ours, theirs in zip(found, jax.tree.leaves(_arrays(expected[make.__name__])), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if ours.dtype.kind == "f":
            size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1e-30)
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * size)
        else:
            np.testing.assert_array_equal(ours, theirs)


def _arrays(values):
    if hasattr(values, "to_dict"):
        return np.stack(values["coverage"].to_numpy()), values.drop(columns="coverage").to_numpy(
            float
        )
    if isinstance(values, tuple):
        return [_arrays(value) for value in values]
    return jax.tree.map(np.asarray, values)

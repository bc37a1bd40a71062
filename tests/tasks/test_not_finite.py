"""What is not finite in float32 never passes verification, and what it costs a stream is said."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.catalog_helpers import BREWERY
from whatif_jax import TaskStream, load_systems, realize, verify
from whatif_jax.catalog import CatalogError
from whatif_jax.tasks.stream_rows import attempt

STEPS = 2880
FORM = 'form = "power", exponent = 0.8'
POOL = "values = [0.25, 0.5, 2, 4]"
CLASS = 'combine = "multiply"'
SECONDARY = 'form = "linear", slope = 0.4'


def systems_with(folder: Path, changes: dict[str, str], size: float = 5.0, zeros: bool = False):
    """The brewery's systems with some text replaced, and series of a size."""
    text = BREWERY.read_text("utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "brewery.toml").write_text(text, "utf-8")
    generator = np.random.default_rng(0)
    series = size * (1 + 0.1 * generator.random(STEPS))
    if zeros:
        series[::3] = 0
    columns = {name: np.float32(series) for name in ("cooling_power", "tank_temperature")}
    parquet.write_table(pa.table(columns), folder / "brewery.parquet")
    return load_systems(folder / "brewery.toml")


RISES = 'form = "exponential", rate = 1.0'
CASES = {
    "exponential": ({FORM: RISES, POOL: "values = [0.5, 100]"}, {}),
    "slow exponential": (
        {FORM: 'form = "exponential", rate = 0.1', POOL: "values = [0.5, 1000]"},
        {},
    ),
    "a secondary that is added": (
        {
            CLASS: 'combine = "add"',
            SECONDARY: RISES + ', offset_scale = "mean"',
            POOL: "values = [0.5, 100]",
        },
        {},
    ),
    "clipped, from zero": (
        {CLASS: CLASS + "\nclip = [0.0, 100.0]", FORM: RISES, POOL: "values = [0.5, 100]"},
        {"zeros": True},
    ),
    "negative power of little": (
        {
            'direction = "direct", '
            + FORM: 'direction = "inverse", form = "power", exponent = -8.0',
            POOL: "values = [1e-9, 2]",
        },
        {},
    ),
    "power of much": ({FORM: 'form = "power", exponent = 15.0', POOL: "values = [0.5, 1000]"}, {}),
    "a large series": ({}, {"size": 1.5e38}),
    "large covariates": ({"base = 12.0": "base = 3e38"}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_draw_that_is_not_finite_is_rejected(tmp_path, name):
    changes, series = CASES[name]
    systems = systems_with(tmp_path, changes, **series)
    stream = TaskStream(0, 64, [(512, 64)], systems, n_events=[1], k=[2])
    bucket, choices = stream.choices[0]

    @jax.jit
    def draw(key):
        spec, ok, finite = attempt(key, jnp.uint32(0), choices, systems, bucket, None)
        return realize(spec, systems), ok, finite

    tasks, ok, finite = jax.vmap(draw)(jax.random.split(stream.root, 300))
    real = tasks.covariate_mask[:, :, None]
    arrays = (tasks.history, tasks.future, tasks.history_covariates * real,
              tasks.future_covariates * real)  # fmt: skip
    broken = np.zeros(300, bool)
    for values in arrays:
        broken |= ~np.isfinite(np.asarray(values)).reshape(300, -1).all(axis=1)
    assert broken.sum() > 20  # the case is one
    assert not np.any(np.asarray(ok) & broken)
    np.testing.assert_array_equal(np.asarray(finite), ~broken)


@pytest.mark.parametrize(
    "changes",
    [
        {"base = 12.0": "base = 1e39"},
        {POOL: "values = [1e-50, 2]"},
        {POOL: "values = [0.5, 1e39]"},
        {FORM: 'form = "power", exponent = 1e39'},
        {FORM: 'form = "linear", slope = 1e39'},
    ],
)
def test_numbers_outside_float32_are_refused_when_read(tmp_path, changes):
    with pytest.raises(CatalogError, match=r"expected"):
        systems_with(tmp_path, changes)


@pytest.mark.parametrize("ends", [(1e-50, 2.0), (0.5, 1e39), (True, 2.0), ("0.5", 2.0), (0.5,)])
def test_factor_ranges_outside_float32_are_refused(ends):
    with pytest.raises(ValueError, match=r"^factor_range: .*expected \(low, high\)"):
        TaskStream(0, 2, systems="epanet", factor_range=ends)


@pytest.mark.parametrize("exponent", [-100, -30, 0, 30, 100])
def test_effects_do_not_depend_on_the_size_of_a_series(tmp_path, exponent):
    """Exactly: a power of two changes no digit."""
    plain = systems_with(tmp_path, {})
    (tmp_path / "other").mkdir()
    sized = systems_with(tmp_path / "other", {}, size=5.0 * 2.0**exponent)
    stream = TaskStream(1, 16, [(512, 64)], plain, n_events=[1])
    specs = stream.batch_at(0).spec
    check = jax.jit(jax.vmap(verify, in_axes=(0, None)))
    for one, other in zip(
        *map(jax.tree.leaves, (check(specs, plain), check(specs, sized))), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def overflowing(folder: Path) -> TaskStream:
    changes = {FORM: 'form = "exponential", rate = 1.0', POOL: "values = [0.5, 2, 100]"}
    return TaskStream(0, 64, [(512, 64)], systems_with(folder, changes), n_events=[1])


def test_a_stream_counts_what_it_draws_again(tmp_path):
    stream = overflowing(tmp_path)
    batch = stream.batch_at(0)
    redraws, overflows = np.asarray(batch.redraws), np.asarray(batch.overflows)
    assert np.asarray(batch.verified).all()
    assert redraws.max() > 0 and np.all(overflows <= redraws) and overflows.max() > 0
    table = stream.acceptance(1000).to_pylist()
    assert [row["target"] for row in table] == ["cooling_power", "tank_temperature"]
    hard, easy = table
    assert hard["draws"] + easy["draws"] == 1024 and easy["not_finite"] == 0
    assert 0.2 < hard["not_finite"] / hard["draws"] < 0.8
    assert hard["accepted"] + hard["not_finite"] <= hard["draws"]


def test_a_stream_that_loses_draws_to_overflow_says_which_targets(tmp_path):
    with pytest.warns(UserWarning, match=r"not finite.*brewery/cooling_power \d+%") as caught:
        list(overflowing(tmp_path).iterate(0, 12))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = tmp_path / "plain"
        plain.mkdir()
        list(TaskStream(0, 64, [(512, 64)], systems_with(plain, {}), n_events=[1]).iterate(0, 12))


@pytest.mark.parametrize("draws", [0, 1.5, True, "many", 10**30])
def test_draws_that_are_no_number_are_refused(tmp_path, draws):
    stream = TaskStream(0, 2, [(512, 64)], systems_with(tmp_path, {}), n_events=[1])
    with pytest.raises(ValueError, match="^draws: .*expected"):
        stream.acceptance(draws)

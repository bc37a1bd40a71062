"""A search of scenarios finds what a dense grid finds, inside its bounds."""

import builtins
import contextlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whatif_jax import (
    Scenario,
    Sizes,
    bucket_for,
    forecast_error,
    inputs_of,
    load_systems,
    reach_path,
    root_key,
    sample_spec,
    scenario_task,
    score,
    search_scenario,
    stay_above,
    stay_below,
)
from whatif_jax.evaluation.objectives import change_of

pytestmark = pytest.mark.slow  # together most of a minute or more on a busy machine

pytest.importorskip("optax")

HORIZON = 64
FACTORS = (0.25, 8.0)
TASKS = {"epanet": "pressure_10", "opendc": "power_draw_host-0"}


@pytest.fixture(scope="module")
def tasks():
    """EPANET pressure and OpenDC power, each with one covariate and with two."""
    systems = load_systems(list(TASKS))
    found = {}
    for system, target in TASKS.items():
        for k in (1, 2):
            sizes = Sizes(
                systems.row(system, target), k, 32, 4, "novel", context=512, horizon=HORIZON
            )
            spec = sample_spec(sizes, systems, bucket_for(sizes), key=root_key(5))
            found[system, k] = scenario_task(spec, systems)
    return found


def linear(inputs):
    """Least squares of the history on the covariates: right inside what was seen, at most."""
    known = inputs.covariates / inputs.covariates[:1] - 1.0
    known = jnp.concatenate([jnp.ones_like(known[:, :1]), known], axis=1)
    past, ahead = known[: -inputs.horizon], known[-inputs.horizon :]
    gram = past.T @ past + 0.1 * jnp.eye(past.shape[1], dtype=past.dtype)
    return ahead @ jnp.linalg.solve(gram, past.T @ inputs.history)


def level(task, share):
    """A level that lies a share of the way from the baseline to what the highest factors give."""
    usual = np.asarray(task.task.future_baseline)
    ends = [
        np.asarray(task(jnp.full(task.factors.shape, factor, jnp.float32), *whole()).future).mean()
        for factor in FACTORS
    ]
    end = max(ends, key=lambda one: abs(one - usual.mean()))
    return float(usual.mean() + share * (end - usual.mean()))


def whole():
    return jnp.float32(0), jnp.float32(HORIZON)


@jax.jit
def values(objective, task, factors, onset, width):
    """An objective at many scenarios."""
    return jax.vmap(lambda *each: objective(task(*each), Scenario(*each)))(factors, onset, width)


def grid_of(*axes):
    return [axis.ravel().astype(np.float32) for axis in np.meshgrid(*axes, indexing="ij")]


def by_grid(objective, task, *, k=1, inside=False, size=41):
    """Objectives over factors alone, or over onset and width with the factors at the highest."""
    if inside:
        onset, width = grid_of(np.linspace(0, 40, size), np.linspace(8, HORIZON, size))
        factors = np.full((len(onset), k), 2.0, np.float32)
    else:
        factors = np.stack(grid_of(*[np.geomspace(*FACTORS, size)] * k), axis=-1)
        onset, width = np.zeros(len(factors), np.float32), np.full(len(factors), HORIZON)
    return np.asarray(values(objective, task, factors, onset, width.astype(np.float32)))


def check_inside(found, **bounds):
    """Every place of every start, to the bit."""
    for name, (low, high) in bounds.items():
        for scenarios in (found.scenario, found.paths.scenarios):
            at = np.asarray(getattr(scenarios, name))
            assert np.all((at >= np.float32(low)) & (at <= np.float32(high))), name


@pytest.mark.parametrize("system", TASKS)
@pytest.mark.parametrize("k", [1, 2])
def test_worst_error_is_the_grids(tasks, system, k):
    """At least that of the grid's best (0.1 %), over one factor and over two."""
    task, objective = tasks[system, k], forecast_error(linear)
    found = search_scenario(objective, task, {"factors": FACTORS}, key=root_key(0), maximize=True)
    best = by_grid(objective, task, k=k, size=201 if k == 1 else 41).max()
    assert found.objective >= best * 0.999 and found.converged
    check_inside(found, factors=FACTORS, onset=(0, 0), width=(HORIZON, HORIZON))
    factors, at = found.scenario.factors[None], jax.tree.map(lambda x: x[None], whole())
    np.testing.assert_allclose(values(objective, task, factors, *at)[0], found.objective, rtol=1e-5)


@pytest.mark.parametrize("system", TASKS)
@pytest.mark.parametrize("k", [1, 2])
def test_a_path_is_reached_as_the_grid_reaches_it(tasks, system, k):
    """No farther than the grid's best, in one dimension and in two; 0.1 % of the baseline's."""
    task = tasks[system, k]
    objective = reach_path(np.full(HORIZON, level(task, 0.3)))
    found = search_scenario(objective, task, {"factors": FACTORS}, key=root_key(0))
    grid = by_grid(objective, task, k=k, size=201 if k == 1 else 41)
    usual = float(objective(task.task.future_baseline, None))
    assert found.objective <= grid.min() + 1e-3 * usual and found.converged
    check_inside(found, factors=FACTORS)


@pytest.mark.parametrize("system", TASKS)
@pytest.mark.parametrize("k", [1, 2])
def test_a_limit_is_held_by_the_smallest_change(tasks, system, k):
    """Within 1 % of the grid's smallest change that holds it, and nearly held itself."""
    task = tasks[system, k]
    share, usual = 0.2, np.asarray(task.task.future_baseline)
    limit = usual.copy()  # in the middle alone, which the edges of a bell could not hold
    limit[16:48] = level(task, share)
    rises = limit[32] > usual.mean()
    objective = (stay_above if rises else stay_below)(limit)
    found = search_scenario(objective, task, {"factors": FACTORS}, key=root_key(0), steps=400)
    grid = by_grid(objective, task, k=k, size=801 if k == 1 else 121)
    assert found.objective <= grid.min() * 1.01
    made = np.asarray(task(found.scenario.factors, *whole()).future)
    over = (limit - made if rises else made - limit).max()
    needed = (limit - usual if rises else usual - limit).max()
    assert over <= 0.02 * needed
    assert 0 < change_of(found.scenario) <= found.objective + 1e-6


@pytest.mark.parametrize("system", TASKS)
def test_onset_and_width_are_the_grids(tasks, system):
    """Where an event of known factors lay is found from its future, over onset and width."""
    task = tasks[system, 1]
    two = jnp.full(1, 2.0, jnp.float32)
    goal = reach_path(task(two, jnp.float32(12.3), jnp.float32(30.8)).future)
    bounds = {"factors": (2.0, 2.0), "onset": (0, 40), "width": (8, HORIZON)}
    found = search_scenario(goal, task, bounds, key=root_key(1))
    grid = by_grid(goal, task, inside=True)
    assert found.objective <= grid.min()
    np.testing.assert_allclose(found.scenario.onset, 12.3, atol=0.1)
    np.testing.assert_allclose(found.scenario.width, 30.8, atol=0.2)
    check_inside(found, **bounds)


def test_error_is_that_of_the_scores(tasks):
    """WAPE, and its gradient by central differences; quantiles at 0.5 alone change nothing."""
    task = tasks["epanet", 2]
    outcome = task(jnp.array([3.0, 0.5], jnp.float32), *whole())
    answer = linear(inputs_of(outcome))
    expected = np.abs(answer - outcome.future).sum() / np.abs(outcome.future).sum()
    for objective in (
        forecast_error(linear),
        forecast_error(lambda inputs: jnp.repeat(linear(inputs)[:, None], 9, axis=1),
                       levels=np.linspace(0.1, 0.9, 9)),
    ):  # fmt: skip
        np.testing.assert_allclose(objective(outcome, None), expected, rtol=1e-5)
    scored = score(outcome, answer[:, None], (0.5,))
    np.testing.assert_allclose(scored.wape, expected, rtol=1e-5)
    mean = forecast_error(linear, relative=False)(outcome, None)
    np.testing.assert_allclose(2 * mean, np.abs(answer - outcome.future).mean(), rtol=1e-5)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.floats(0.01, 100), min_size=4, max_size=4),
    st.lists(st.floats(0, 50), min_size=4, max_size=4),
    st.integers(0, 1000),
)
def test_bounds_hold_at_every_place(factors, steps, seed):
    pairs = [sorted(factors[:2]), sorted(factors[2:])]
    bounds = {"factors": pairs, "onset": sorted(steps[:2]), "width": sorted(steps[2:])}
    found = search_scenario(
        slanted, parts, bounds, key=root_key(seed), starts=4, steps=10, learning_rate=1.0
    )
    low, high = np.array(pairs, np.float32).T
    at = np.asarray(found.paths.scenarios.factors)
    assert np.all((at >= low) & (at <= high))
    check_inside(found, onset=bounds["onset"], width=bounds["width"])


def parts(factors, onset, width):
    return jnp.concatenate([factors, jnp.stack([onset, width])])


def slanted(outcome, scenario):
    return jnp.sum(outcome * jnp.array([1.0, -1.0, 1.0, -1.0], jnp.float32))


def test_what_is_not_finite_never_wins():
    """Left of 1 the objective is NaN, where it is lowest; a gradient alone counts as much."""

    def respond(factors, onset, width):
        return factors[0]

    def root(value, scenario):
        return jnp.where(value < 1.0, jnp.nan, value)

    def edge(value, scenario):
        """Its value is finite everywhere, its gradient not below 1."""
        return value + 0.0 * jnp.sqrt(jnp.where(value < 1.0, 0.0 * value, 1.0))

    bounds = {"factors": (0.1, 20.0), "onset": (0, 0), "width": (1, 1)}
    for objective in (root, edge):
        found = search_scenario(objective, respond, bounds, key=root_key(0), starts=16)
        assert found.objective >= 1 and found.scenario.factors[0] >= 1
        stopped = ~np.asarray(found.paths.finite)
        assert stopped.any() and not np.asarray(found.paths.converged)[stopped].any()
    with pytest.raises(ValueError, match=r"^objective: neither .* of 3 starts, such as factors \["):
        search_scenario(
            lambda value, scenario: value * jnp.nan, respond, bounds, key=root_key(0), starts=3
        )


def test_a_start_does_not_depend_on_how_many_there_are():
    bounds = {"factors": [(0.1, 10.0)] * 2, "onset": (0, 9), "width": (1, 9)}
    few, many = (
        search_scenario(slanted, parts, bounds, key=root_key(0), starts=starts, steps=5).paths
        for starts in (2, 5)
    )
    first = np.asarray(few.scenarios.factors)
    np.testing.assert_allclose(first, np.asarray(many.scenarios.factors)[:2], rtol=1e-5)
    np.testing.assert_allclose(first[0, 0], 1.0, rtol=1e-5)  # the middle, in logarithms
    assert few.objectives.shape == (2, 6)


def test_a_short_search_says_that_it_has_not_converged():
    bounds = {"factors": [(0.1, 10.0)] * 2, "onset": (0, 9), "width": (1, 9)}
    search = dict(key=root_key(0), steps=8)
    assert not search_scenario(slanted, parts, bounds, learning_rate=1e-3, **search).converged
    assert search_scenario(slanted, parts, bounds, learning_rate=1.0, **search).converged


@contextlib.contextmanager
def strict():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.mark.parametrize(
    "flags",
    [
        strict,
        lambda: jax.enable_x64(True),
        lambda: jax.debug_nans(True),
    ],
)
def test_a_flag_changes_nothing(tasks, flags):
    task, objective = tasks["epanet", 1], reach_path(150.0)
    bounds = {"factors": FACTORS, "width": (8, HORIZON)}
    search = dict(key=root_key(2), starts=3, steps=20)
    expected = search_scenario(objective, task, bounds, **search)
    with flags():
        found = search_scenario(objective, task, bounds, **search)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize(
    "bounds, message",
    [
        (None, "^bounds: None; expected pairs"),
        ({}, "^bounds: {}; expected pairs"),
        ({"factor": (1, 2)}, "^bounds: 'factor'; expected some of factors, onset, width"),
        ({"factors": (0, 2)}, r"^bounds: factors \(0, 2\); expected 0 < low <= high"),
        ({"factors": (3, 2)}, "^bounds: factors .*expected 0 < low <= high"),
        ({"factors": (1, np.inf)}, "^bounds: factors .*expected finite numbers"),
        ({"factors": (1, 2, 3)}, "^bounds: factors .*expected finite numbers"),
        ({"factors": "ab"}, "^bounds: factors ab; expected finite numbers"),
        ({"factors": [(1, 2)] * 3}, "^bounds: 3 pairs of factors; expected 1, or 2, one each"),
        ({"onset": (-1, 2)}, "^bounds: onset .*expected 0 <= low <= high <= 64, the horizon"),
        ({"width": (2, 65)}, "^bounds: width .*expected 0 <= low <= high <= 64, the horizon"),
        ({"width": [(2, 3), (2, 3)]}, "^bounds: width .*expected 0 <= low"),
    ],
)
def test_bounds_are_refused_by_name(tasks, bounds, message):
    with pytest.raises(ValueError, match=message):
        search_scenario(reach_path(1.0), tasks["epanet", 2], bounds, key=root_key(0))


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"objective": 3}, "^objective: 3; expected a function"),
        ({"objective": lambda outcome, scenario: outcome}, "^objective: .*expected a real scalar"),
        ({"respond": 3}, "^respond: 3; expected a function"),
        ({"bounds": {"factors": (1, 2)}}, "^bounds: no onset, width; expected all"),
        ({"key": 0}, "^key: 0; expected a JAX key"),
        ({"starts": 0}, "^starts: 0; expected a whole number"),
        ({"steps": 1.5}, "^steps: 1.5; expected a whole number"),
        ({"learning_rate": 0}, r"^learning_rate: 0; expected a number in \(0, 1\]"),
    ],
)
def test_what_a_search_cannot_use_is_refused(changed, message):
    asked = dict(
        objective=slanted, respond=parts, key=root_key(0),
        bounds={"factors": [(1, 2)] * 2, "onset": (0, 1), "width": (0, 1)},
    )  # fmt: skip
    with pytest.raises(ValueError, match=message):
        search_scenario(**(asked | changed))


def test_objectives_refuse_what_they_cannot_use(tasks):
    for make, message in [
        (lambda: forecast_error(3), "^forecaster: 3; expected a function"),
        (lambda: forecast_error(linear, levels=(0, 1)), "^levels: .*within"),
        (lambda: reach_path("x"), "^path: x; expected one finite number"),
        (lambda: stay_below(np.nan), "^limit: nan; expected one finite number"),
        (lambda: stay_above(1.0, weight=0), "^weight: 0; expected a number above 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(ValueError, match=r"^objective: numbers \(3,\) for a future \(64,\)"):
        reach_path([1.0, 2.0, 3.0])(tasks["epanet", 1].task, None)
    with pytest.raises(ValueError, match=r"^forecaster: an answer \(64, 2\); expected \[H, Q\]"):
        forecast_error(lambda inputs: jnp.zeros((64, 2)))(tasks["epanet", 1].task, None)


def test_optax_missing_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "optax":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "optax", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"^optax is not installed; .*whatif-jax\[training\]"):
        search_scenario(slanted, parts, {}, key=root_key(0))

"""Episodes as tasks: against slices by hand, and every kind of forecaster and metric on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import EpisodeStream, EpisodeTasks, load_prior, sample_episodes
from whatif_jax.tscm.task import _batch_of, task_of_episode

pytestmark = pytest.mark.slow  # the sampler compiles for most of a minute

C, H, STEPS, COUNT = 24, 30, 40, 60
PRIOR = load_prior(
    "chain",
    {
        "nodes": [4, 4],
        "hidden": 0.0,
        "query": {"since": "onset", "offsets": [0, 2]},
        "time": {"burn_in": 5},
    },
)


@pytest.fixture(scope="module")
def episodes():
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(3), number))
    keys = fold(jnp.arange(COUNT, dtype=jnp.uint32))
    return jax.device_get(sample_episodes(keys=keys, prior=PRIOR, steps=STEPS))


@pytest.mark.parametrize(
    ("run", "until"), [("counterfactual", "series"), ("interventional", "query")]
)
def test_a_task_is_the_run_cut_at_the_onset(episodes, run, until):
    tasks = jax.device_get(_batch_of(episodes, C, H, run, until))
    kinds = set()
    for row in range(COUNT):
        one, task = (
            jax.tree.map(lambda leaf, at=row: leaf[at], all_) for all_ in (episodes, tasks)
        )
        given, node = one.intervention, int(one.query.node)
        onset = int(given.onset)
        begin = max(onset - C, 0)
        end = min(onset + H, STEPS if until == "series" else int(one.query.steps.max()) + 1)
        past, ahead = onset - begin, end - onset
        assert task.history_mask.tolist() == [False] * (C - past) + [True] * past
        assert task.future_mask.tolist() == [True] * ahead + [False] * (H - ahead)
        np.testing.assert_array_equal(task.history[C - past :], one.factual[begin:onset, node])
        np.testing.assert_array_equal(task.future[:ahead], getattr(one, run)[onset:end, node])
        np.testing.assert_array_equal(task.future_baseline[:ahead], one.factual[onset:end, node])
        assert not task.history[: C - past].any() and not task.future[ahead:].any()
        for slot, target in enumerate(given.targets):
            assert task.covariate_mask[slot] == (target >= 0)
            if target < 0:
                assert not task.history_covariates[slot].any()
                assert not task.future_covariates[slot].any()
                continue
            own = one.factual[begin:onset, target]
            np.testing.assert_array_equal(task.history_covariates[slot, C - past :], own)
            known = np.full(end - onset, own.mean())
            on = given.active[onset:end]
            value = given.values[onset:end, slot]
            known[on] = (value if given.kind != 1 else value + own.mean())[on]
            np.testing.assert_allclose(task.future_covariates[slot, :ahead], known, atol=1e-5)
            kinds.add(int(given.kind))
    assert kinds == {0, 1, 2}


def test_a_latent_node_never_appears(episodes):
    """A node hidden afterwards: as target its covariate is masked, as outcome the history is."""
    one = jax.tree.map(lambda leaf: leaf[0], episodes)
    plain = task_of_episode(one, context=C, horizon=H)
    target, node = int(one.intervention.targets[0]), int(one.query.node)
    for hidden in (target, node):
        latent = np.arange(4) == hidden
        scm = type(one.scm)(**{**vars(one.scm), "latent": latent})
        task = task_of_episode(type(one)(**{**vars(one), "scm": scm}), context=C, horizon=H)
        if hidden == target:
            assert plain.covariate_mask[0] and not task.covariate_mask[0]
            assert not task.history_covariates[0].any() and not task.future_covariates[0].any()
        else:
            assert not task.history_mask.any()
            assert not task.history.any() and not task.future.any()


def test_bad_arguments_are_named(episodes):
    one = jax.tree.map(lambda leaf: leaf[0], episodes)
    for field, value, said in (
        ("context", 0, "context: 0; expected a whole number of at least 1"),
        ("horizon", 1.5, "horizon: 1.5; expected a whole number of at least 1"),
        ("run", "factual", "run: 'factual'; expected one of counterfactual, interventional"),
        ("until", "onset", "until: 'onset'; expected one of series, query"),
    ):
        with pytest.raises(ValueError, match=f"^{said}$"):
            task_of_episode(one, **({"context": C, "horizon": H} | {field: value}))


@pytest.mark.parametrize("name", ["naive", "linear", "scaling"])
def test_forecasters_and_metrics_run_on_a_stream_of_them(name):
    from eval.forecasters import linear, naive, scaling
    from eval.stream import ALL, StreamCases, score_cases

    make = {"naive": naive.make, "linear": linear.make_linear, "scaling": scaling.make}[name]
    prior = load_prior("bi_variate", {"query": {"since": "onset", "offsets": [7]}})
    tasks = EpisodeTasks(EpisodeStream(1, 64, prior, 100), 64, 8, until="query")
    assert tasks.describe()["context"] == 64
    about = {"prior": "bi_variate", "seed": 1, "tasks": 64, "buckets": []}
    row = score_cases(make(), StreamCases({ALL: tasks}, about))[0]
    assert row["tasks"] == 64 and row["imputed"] == 0 and np.isfinite(row["skill"])
    if name == "naive":
        assert row["skill"] == 0

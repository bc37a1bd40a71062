"""Episodes and their stream: runs, queries, values, redraws, seeds, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import (
    EpisodeStream,
    descendants,
    load_prior,
    prior_names,
    sample_episode,
    sample_episodes,
    structures,
    summary_graph,
)
from whatif_jax.tscm.episode import _episodes, _screen_steps
from whatif_jax.tscm.intervention import guarded, intervene
from whatif_jax.tscm.stream import _make_batch

STEPS = 40
MIXED = load_prior(
    "diverse",
    {
        "nodes": [3, 5],
        "lags": [1, 2],
        "intervention": {"values": {"prior": 1.0, "observed_normal": 1.0}},
        "query": {"since": "onset", "offsets": [0, 2]},
        "time": {"burn_in": 10},
    },
)


def keys_of(count):
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(5), number))
    return fold(jnp.arange(count, dtype=jnp.uint32))


@pytest.fixture(scope="module")
def episodes():
    return jax.device_get(sample_episodes(keys=keys_of(96), prior=MIXED, steps=STEPS, lanes=32))


def test_the_counterfactual_is_the_factual_run_before_the_onset(episodes):
    step = np.arange(STEPS)[None, :, None]
    before = np.broadcast_to(step < episodes.intervention.onset[:, None, None], (96, STEPS, 5))
    np.testing.assert_array_equal(episodes.counterfactual[before], episodes.factual[before])
    other = episodes.interventional[before] != episodes.factual[before]
    assert other.mean() > 0.5, "the interventional run has noise of its own"


def test_no_episode_is_zeroed_and_none_leaves_the_limit(episodes):
    assert episodes.finite.all()
    assert (episodes.redraws < MIXED.stability.attempts).all()
    assert episodes.redraws.max() > 0, "some were drawn again, and say so"
    for values in (episodes.factual, episodes.interventional, episodes.counterfactual):
        assert np.isfinite(values).all()
        assert (np.abs(values) <= MIXED.stability.limit).all()
        assert (np.abs(values).max(axis=(1, 2)) > 0).all()


def test_effects_reach_the_targets_descendants_only(episodes):
    graphs = jax.vmap(lambda scm: descendants(summary_graph(scm)))(episodes.scm)
    targets = episodes.intervention.targets
    for row, below in enumerate(np.asarray(graphs)):
        hit = [target for target in targets[row] if target >= 0]
        allowed = below[:, hit].any(axis=1)
        allowed[hit] = True
        moved = (episodes.counterfactual[row] != episodes.factual[row]).any(axis=0)
        assert not (moved & ~allowed).any()


def test_a_query_asks_for_a_visible_node_the_intervention_moved(episodes):
    rows = np.arange(96)
    node, steps = episodes.query.node, episodes.query.steps
    visible = episodes.scm.node & ~episodes.scm.latent
    assert visible[rows, node].all()
    assert (node[:, None] != episodes.intervention.targets).all()
    onset = episodes.intervention.onset[:, None]
    np.testing.assert_array_equal(steps, np.minimum(onset + np.array([0, 2]), STEPS - 1))
    change = episodes.counterfactual - episodes.factual
    moved = (change[rows[:, None], steps] != 0).any(axis=1)  # [96, N]
    targets = episodes.intervention.targets
    free = visible & ~np.any(np.arange(5)[None, :, None] == targets[:, None, :], axis=2)
    some = (moved & free).any(axis=1)
    assert moved[rows, node][some].all()
    assert some.mean() > 0.5


def test_hard_values_stand_where_the_intervention_is_active(episodes):
    held = 0
    for row in range(96):
        act = jax.tree.map(lambda leaf, row=row: leaf[row], episodes.intervention)
        if act.kind == 1:
            continue
        for slot in (0, 1):
            if act.targets[slot] >= 0:
                found = episodes.counterfactual[row, act.active, act.targets[slot]]
                np.testing.assert_array_equal(found, act.values[act.active, slot])
                held += 1
    assert held > 20


def test_an_episode_depends_on_its_own_key_alone(episodes):
    few = jax.device_get(sample_episodes(keys=keys_of(40), prior=MIXED, steps=STEPS, lanes=32))
    for one, other in zip(jax.tree.leaves(few), jax.tree.leaves(episodes), strict=True):
        np.testing.assert_array_equal(one, other[:40])


@pytest.mark.slow
def test_one_episode_is_a_row_of_many_to_the_bit(episodes):
    """Fewer than 32 lanes were rounded otherwise, and chaotic worlds became other ones."""
    one = jax.device_get(sample_episode(key=keys_of(96)[7], prior=MIXED, steps=STEPS))
    few = jax.device_get(sample_episodes(keys=keys_of(96)[5:9], prior=MIXED, steps=STEPS))
    leaves = zip(*map(jax.tree.leaves, (one, few, episodes)), strict=True)
    for alone, among_few, row in leaves:
        np.testing.assert_array_equal(alone, row[7])
        np.testing.assert_array_equal(among_few, row[5:9])


def test_values_of_a_mode_come_from_before_the_onset():
    rng = np.random.default_rng(0)
    past = jnp.asarray(rng.normal(2.0, 0.5, size=(30, 3)), jnp.float32)
    before = np.asarray(past)[:12, 1]
    act = intervene(1, 50.0, onset=12, length=4, steps=30)
    pick, normal = jnp.asarray([0.4, 0.9]), jnp.float32(-0.3)

    def value(mode):
        given = act.__class__(**{**vars(act), "mode": jnp.int32(mode)})
        return float(guarded(given, past, normal, pick).values[13, 0])

    mean, sd = before.mean(), before.std(ddof=1)
    low, high = before.min(), before.max()
    expected = [50.0, mean + 3 * sd, before[4], mean - 0.3 * sd, low + (high - low) * 0.4]
    for mode, number in enumerate(expected):
        np.testing.assert_allclose(value(mode), number, rtol=1e-5)


def test_the_stream_is_a_pure_function_of_key_and_step():
    stream = EpisodeStream(7, 32, "bi_variate", steps=STEPS)
    found = {step: jax.device_get(stream.batch_at(step)) for step in (0, 2**33)}
    again = EpisodeStream(7, 32, "bi_variate", steps=STEPS)
    before = _make_batch._cache_size()
    for step, batch in found.items():
        same = jax.device_get(again.batch_at(step))
        for one, other in zip(jax.tree.leaves(batch), jax.tree.leaves(same), strict=True):
            np.testing.assert_array_equal(one, other)
    assert _make_batch._cache_size() == before, "one program a bucket"
    assert not np.array_equal(found[0].episode.factual, found[2**33].episode.factual)
    first = next(iter(again))
    np.testing.assert_array_equal(first.episode.factual, found[0].episode.factual)


def test_a_mixture_takes_its_worlds_by_turns():
    stream = EpisodeStream(0, 4)
    names = ["diverse_small", "diverse_large", "chain", "regime_small", "regime_large"]
    assert stream.buckets == tuple(load_prior(name) for name in names)
    turns = np.bincount(stream.turns) / len(stream.turns)
    np.testing.assert_allclose(turns, [0.35, 0.35, 0.15, 0.075, 0.075], atol=1e-6)
    assert stream.describe()["buckets"][1] == [10, 3, 1, 200]


def test_every_named_prior_loads_and_structures_are_acyclic():
    for name in prior_names():
        if name != "generic":
            assert hash(load_prior(name)) == hash(load_prior(name))
    assert len(structures()) == 9
    for structure in structures().values():
        assert all(parent < child for parent, child in structure.pairs(structure.now))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: load_prior("backdoor"), "expected .*'back_door'"),
        (lambda: load_prior("diverse", {"nodes": [3, 65]}), "nodes: .*<= 64"),
        (
            lambda: load_prior("diverse", {"mechanisms": {"cubic": 1.0}}),
            "mechanisms: .*tanh_square",
        ),
        (lambda: load_prior("continuous", {"regimes": {"number": [2]}}), "one regime"),
        (lambda: load_prior("no/such.toml"), "expected a readable file"),
        (lambda: EpisodeStream(0, 4, steps=20), "steps: 20; expected 21"),
        (lambda: EpisodeStream(0, 4, 3), "prior: 3; expected a Prior"),
        (lambda: EpisodeStream(0, 0), "batch_size"),
        (lambda: EpisodeStream(0, 4, [], steps=50), "expected at least one"),
        (lambda: sample_episode(key=3), "key: 3; expected a JAX key"),
        (lambda: sample_episode(key=root_key(0), steps=10**6), "steps: 1000000"),
        (lambda: sample_episode(key=root_key(0), steps=True), "steps: True"),
        (
            lambda: sample_episode(
                key=root_key(0), prior=load_prior("continuous", {"time": {"substeps": 2**20}})
            ),
            "steps: 200 and burn-in or sub-steps, .*; expected at most 8388608",
        ),
        (lambda: sample_episodes(keys=root_key(0)), "keys: .*; expected an array of JAX keys"),
        (lambda: sample_episodes(keys=np.zeros((4, 2), np.uint32)), "keys: .*; expected an array"),
        (lambda: sample_episodes(keys=keys_of(2), lanes=-1), "lanes: -1; expected an integer"),
        (lambda: sample_episodes(keys=keys_of(2), lanes=2.5), "lanes: 2.5"),
        (lambda: sample_episodes(keys=keys_of(2)[:0]), r"keys of shape \(0,\); expected an array"),
        (lambda: load_prior("diverse", 5), "changes: 5; expected a table"),
        # runs are clipped at 1000, which would pass
        (lambda: load_prior("diverse", {"stability": {"limit": 1000.0}}), "limit: .* below 1000"),
        (lambda: load_prior("diverse", {"stability": {"attempts": 2**30}}), "attempts: .* 65536"),
    ],
)
def test_what_is_not_usable_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_keys_of_every_implementation_are_taken():
    keys = jax.random.split(jax.random.key(0, impl="rbg"), 4)

    def drawn():
        return sample_episodes(keys=keys, prior="bi_variate", steps=STEPS)

    assert jax.eval_shape(drawn).factual.shape == (4, STEPS, 2)


def test_worlds_in_continuous_time_are_not_screened_by_discrete_runs():
    for graph in ("random", "chain"):
        prior = load_prior("continuous", {"graph": graph, "nodes": [3, 5]})
        assert _screen_steps(prior, 200) == 0
    assert _screen_steps(load_prior("diverse"), 200) == 50


def test_one_program_serves_all_keys(episodes):
    before = _episodes._cache_size()
    other = jax.vmap(lambda number: jax.random.fold_in(root_key(6), number))
    sample_episodes(keys=other(jnp.arange(96)), prior=MIXED, steps=STEPS, lanes=32)
    assert _episodes._cache_size() == before

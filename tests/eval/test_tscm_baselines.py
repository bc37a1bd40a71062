"""Baselines of temporal causal worlds: the facts that must come out, evidence, and few steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tscm_questions import linear_series, question_by_hand, stacked

from eval.tscm import RUNGS, baselines, question_of
from eval.tscm.forecasting import Forecasting
from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import load_prior, sample_episodes, structures

METHODS = baselines()
CLOSED = [name for name, method in METHODS.items() if not isinstance(method, Forecasting)]
FITS = {
    "back_door": {"back_door", "observed_confounder", "confounder_mediator"},
    "instrument": {"instrumental_variable"},
    "front_door": {"front_door", "mediator", "confounder_mediator"},
    "regression": set(structures()),
}


@functools.cache
def linear_world(structure, steps, count):
    """Episodes of a structure with linear mechanisms, and their questions."""
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(11), number))
    keys = fold(jnp.arange(count, dtype=jnp.uint32))
    prior = load_prior(structure, {"mechanisms": {"linear": 1.0}})
    episodes = sample_episodes(keys=keys, prior=prior, steps=steps)
    return episodes, jax.jit(jax.vmap(question_of))(episodes)


def effect_of(name, structure, steps, count):
    episodes, questions = linear_world(structure, steps, count)
    found = METHODS[name].estimate_many(questions, structure, episode=episodes)
    return np.asarray(found.effect, np.float64)[:, 0]


def doses(structure, steps, count):
    """How far each intervention moves A from its mean before the onset."""
    episodes, questions = linear_world(structure, steps, count)
    onset = np.asarray(episodes.intervention.onset)
    rows = np.arange(count)
    value = np.asarray(episodes.intervention.values, np.float64)[rows, onset, 0]
    place = structures()[structure].names().index("A")
    return value - np.asarray(questions.series, np.float64)[:, :, place].sum(axis=1) / onset


def weights(structure, steps, count):
    """By name, the weight of each edge at once and at lag 1: [count]."""
    names = structures()[structure].names()
    found = np.asarray(linear_world(structure, steps, count)[0].scm.weights, np.float64)[:, 0]
    return lambda edge, lag=0: found[:, lag, names.index(edge[2]), names.index(edge[0])]


def test_the_oracle_has_no_error():
    world = ("observed_confounder", 200, 400)
    episodes, questions = linear_world(*world)
    found = METHODS["oracle"].estimate_many(questions, world[0], episode=episodes)
    rows = np.arange(400)[:, None]
    at = rows, np.asarray(episodes.query.steps), np.asarray(episodes.query.node)[:, None]
    for rung in RUNGS:
        np.testing.assert_array_equal(found.value_of(rung), np.asarray(getattr(episodes, rung))[at])
    np.testing.assert_array_equal(found.effect, np.asarray(episodes.effect)[at])
    with pytest.raises(ValueError, match="^episode: None; expected the episode"):
        METHODS["oracle"].estimate_many(questions, world[0])


def test_adjustment_sees_no_effect_where_plain_regression_sees_the_confounders():
    """Coefficients in the direction in which the confounder would bias them; no effect is there."""
    world = ("observed_confounder", 200, 400)
    edge = weights(*world)
    towards = np.sign(edge("X>A") * edge("X>X", 1) * edge("X>Y", 1))
    onset = np.asarray(linear_world(*world)[0].intervention.onset)
    late = onset > 50

    def bias(name):
        found = (towards * effect_of(name, *world) / doses(*world))[late]
        return found.mean(), found.std() / np.sqrt(late.sum())

    mean, error = bias("regression")
    assert mean > 3 * error
    mean, error = bias("back_door")
    assert abs(mean) < 3 * error


@pytest.mark.slow  # long series
def test_two_stages_are_unbiased_and_nearer_on_long_series_with_strong_instruments():
    """At T = 200 they are unbiased too, but their noise is larger than plain regression's bias."""
    world = ("instrumental_variable", 2000, 200)
    edge = weights(*world)
    dose = doses(*world)
    truth = edge("A>Y") * dose
    found = {name: effect_of(name, *world) for name in ("regression", "instrument")}
    strong = found["instrument"] != 0
    strong &= np.asarray(linear_world(*world)[0].intervention.onset) > 500
    assert strong.sum() > 80
    towards = np.sign(edge("U>A") * edge("U>Y"))
    size, bias = {}, {}
    for name, effect in found.items():
        error = (effect - truth)[strong]
        size[name] = np.sqrt(np.mean(error**2))
        signed = (towards * (effect - truth) / dose)[strong]
        bias[name] = signed.mean() / (signed.std() / np.sqrt(strong.sum()))
    assert size["instrument"] < size["regression"]
    assert bias["regression"] > 5 and abs(bias["instrument"]) < 3


def test_weak_instruments_give_the_mean():
    weak = linear_series("instrumental_variable", seed=3)
    weak[:, 1] = np.random.default_rng(4).normal(size=len(weak))  # an instrument of nothing
    asked = question_by_hand("instrumental_variable", weak, 150)
    found = METHODS["instrument"].estimate_many(stacked([asked]), "instrumental_variable")
    assert found.effect.tolist() == [[0.0]]
    np.testing.assert_allclose(found.value, [[weak[:150, 3].mean()]], rtol=1e-5)


@pytest.mark.parametrize("name", FITS)
def test_what_a_structure_does_not_suit_gives_the_mean(name):
    method = METHODS[name]
    assert {structure for structure in structures() if method.applies(structure)} == FITS[name]
    assert not method.applies("")
    for structure in ("", *sorted(set(structures()) - FITS[name])):
        own = structure or "bi_variate"
        asked = stacked([question_by_hand(own, linear_series(own), 150)])
        found, mean = (METHODS[one].estimate_many(asked, structure) for one in (name, "mean"))
        np.testing.assert_array_equal(found.value, mean.value)
        assert not found.effect.any()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "var" else pytest.mark.slow) for name in CLOSED]
)
def test_few_steps_give_numbers(name):
    """Onsets from the first step on, one value all along, values of 500, and long windows."""
    series = linear_series("confounder_mediator", steps=60)
    asked = [
        question_by_hand("confounder_mediator", values, onset, 4.0, length=length, offsets=(0, 9))
        for values in (series, np.full_like(series, 3.0), 100 * series, 0 * series)
        for onset in (0, 1, 2, 3, 5, 8, 10, 12, 20)
        for length in (1, 40)
    ]
    questions = stacked(asked)
    if name == "oracle":
        pytest.skip("it reads no evidence")
    found = METHODS[name].estimate_many(questions, "confounder_mediator")
    assert np.isfinite(found.value).all() and np.isfinite(found.effect).all()
    early = np.asarray(questions.intervention.onset) <= 2
    assert not np.asarray(found.effect)[early].any()


def test_a_question_shows_no_latent_node_and_nothing_from_the_onset_on():
    episodes, questions = linear_world("instrumental_variable", 2000, 200)
    one = jax.tree.map(lambda leaf: leaf[0], episodes)
    latent = structures()["instrumental_variable"].names().index("U")
    assert one.scm.latent[latent] and np.asarray(one.factual)[:, latent].any()
    assert not np.asarray(questions.series)[:, :, latent].any()
    step = np.arange(2000)
    before = step[None] < np.asarray(episodes.intervention.onset)[:, None]
    np.testing.assert_array_equal(questions.seen, before)
    assert not np.asarray(questions.series)[~before].any()
    whole = question_of(one, "whole")
    assert whole.seen.all()
    np.testing.assert_array_equal(whole.series[:, 1:], one.factual[:, 1:])
    with pytest.raises(ValueError, match="^evidence: 'after'; expected one of before, whole$"):
        question_of(one, "after")

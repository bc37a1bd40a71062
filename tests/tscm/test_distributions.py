"""What is drawn is distributed as the prior says, and as the dotime package draws it.

Worlds are drawn and not simulated, so that no episode is drawn again: what the limit leaves is
another distribution, ours by choice (the package returns zeros instead). Quick tests compare with
SciPy's distributions and with the paper's rejection sampler, written here in NumPy. The slow one
compares 10,000 worlds with as many of the package, which draws in a process of its own:
`DOTIME=/folder/of/the/unpacked/wheel pytest -m slow tests/tscm/test_distributions.py`.

Keys are fixed, so the tests do not flicker. All comparisons of a test together have an error of the
first kind of ALPHA: each is held to ALPHA / their number (Bonferroni).
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.tscm.test_worlds import root_key_of
from whatif_jax.tscm import load_prior, sample_episodes
from whatif_jax.tscm.graphs import sizes_of
from whatif_jax.tscm.intervention import draw_intervention, intervention_shapes
from whatif_jax.tscm.names import KINDS, MECHANISMS, SHAPES
from whatif_jax.tscm.noise import free_normals
from whatif_jax.tscm.numbers import draw_numbers
from whatif_jax.tscm.sample import scm_of, scm_shapes

ALPHA, STEPS, SHORT = 0.001, 200, 40
FOLDER = os.environ.get("DOTIME", "")
PACKAGE_KINDS = ("hard", "soft", "time_varying")
PACKAGE_SHAPES = ("step", "ramp", "sine", "trajectory")


@functools.cache
def drawn(name, count):
    """Worlds and their interventions, as NumPy arrays."""
    prior = load_prior(name)
    shapes = scm_shapes(prior) | intervention_shapes(prior, sizes_of(prior)[0])

    def draw(seed):
        key = root_key_of(seed)
        numbers = draw_numbers(key, shapes)
        scm = scm_of(numbers, prior)
        times = jnp.arange(STEPS, dtype=jnp.float32)
        return scm, draw_intervention(numbers, free_normals(key, STEPS), scm, prior, times)

    return jax.device_get(jax.jit(jax.vmap(draw))(jnp.arange(count)))


def worlds_of(name, count):
    """Numbers of all worlds of one regime, by the names of `dotime_draws.py`."""
    scm, _ = drawn(name, count)
    node, edges = scm.node, scm.edges[:, 0]
    parents = edges[:, 0].any(axis=2)
    own = np.einsum("bkii->bki", edges).sum(axis=2)
    every = edges.sum(axis=(2, 3))
    found = {"nodes": node.sum(axis=1), "edges at once": every[:, 0]}
    for lag in range(1, edges.shape[1]):
        found[f"self-edges of lag {lag}"] = own[:, lag]
        found[f"other edges of lag {lag}"] = every[:, lag] - own[:, lag]
    found["mechanism"] = scm.mechanism[:, 0][node]
    found["bias"] = scm.bias[:, 0][node]
    found["weight"] = scm.weights[:, 0, 0][edges[:, 0]]
    for where, mask in (("with", node & parents), ("without", node & ~parents)):
        found[f"noise sd {where} parents"] = scm.scale[mask]
        found[f"noise kind {where} parents"] = scm.noise[mask]
    return found


def interventions_of(name, count):
    _, act = drawn(name, count)
    value = act.values[np.arange(count), act.onset, 0]
    return {
        "kind": act.kind,
        "length": act.length,
        "onset, of the room": (act.onset - 10 + 0.5) / (STEPS - act.length - 10 + 1),
        "shape": act.shape[act.kind == KINDS.index("varying")],
        "hard value": value[act.kind == KINDS.index("hard")],
        "soft value": value[act.kind == KINDS.index("soft")],
    }


def same_counts(ours, theirs):
    """p-value that two samples of whole numbers have one distribution; rare numbers together."""
    values = np.union1d(ours, theirs)
    table = np.array([[np.sum(some == value) for value in values] for some in (ours, theirs)])
    groups = np.searchsorted(np.arange(40, table.sum() + 40, 40), np.cumsum(table.sum(axis=0)))
    merged = np.array([np.bincount(groups, row) for row in table])
    merged = merged[:, merged.sum(axis=0) > 0]
    return stats.chi2_contingency(merged).pvalue if merged.shape[1] > 1 else 1.0


def as_shares(counts, shares):
    """p-value that counts are those of some shares."""
    shares = np.asarray(shares, float)
    return stats.chisquare(counts, shares / shares.sum() * np.sum(counts)).pvalue


def hold(found):
    """No comparison is beyond its part of ALPHA."""
    beyond = {name: p for name, p in found.items() if not p > ALPHA / len(found)}
    assert not beyond, f"of {len(found)} comparisons"


@pytest.fixture(scope="module")
def diverse():
    return worlds_of("diverse", 4000)


def test_sizes_mechanisms_weights_and_noise_are_the_priors(diverse):
    prior = load_prior("diverse")
    said = prior.noise
    kinds = np.bincount(diverse["noise kind with parents"], minlength=3)
    found = {
        "nodes": as_shares(np.bincount(diverse["nodes"], minlength=11)[3:], np.ones(8)),
        "mechanism": as_shares(
            np.bincount(diverse["mechanism"], minlength=9),
            [prior.mechanisms[name] for name in MECHANISMS],
        ),
        "weight": stats.kstest(diverse["weight"], stats.norm(0, prior.weights.scale).cdf).pvalue,
        "bias": stats.kstest(diverse["bias"], stats.norm(0, prior.weights.bias).cdf).pvalue,
        "kinds": as_shares(kinds, np.ones(3)),
        "root sd": stats.kstest(
            diverse["noise sd without parents"],
            stats.expon(said.root.least, said.root.exponential).cdf,
        ).pvalue,
        "other sd": stats.kstest(
            diverse["noise sd with parents"],
            stats.expon(said.other.least, said.other.exponential).cdf,
        ).pvalue,
    }
    hold(found)
    assert not diverse["noise kind without parents"].any()


def test_lagged_edges_are_the_priors(diverse):
    """Counts given the number of nodes, by the uniform number that their distribution makes."""
    prior = load_prior("diverse")
    rng = np.random.default_rng(0)
    points, masses = np.polynomial.legendre.leggauss(60)
    p = (points + 1) / 2
    masses = masses / 2 * stats.beta(*prior.edges.beta).pdf(p)
    found = {}
    for lag in (1, 2, 3):
        for name, of in (("self-", lambda n: n), ("other ", lambda n: n * (n - 1))):
            uniform = []
            for nodes in range(3, 11):
                some = diverse[f"{name}edges of lag {lag}"][diverse["nodes"] == nodes]
                place = np.arange(of(nodes) + 1)
                chance = p * prior.edges.decay**lag
                mass = stats.binom.pmf(place[:, None], of(nodes), chance[None]) @ masses
                has = (4 - lag) / 3  # worlds have 1, 2 or 3 lags
                mass = has * mass + (1 - has) * (place == 0)
                below = np.cumsum(mass) - mass
                uniform.append(below[some] + rng.random(len(some)) * mass[some])
            found[f"{name}{lag}"] = stats.kstest(np.concatenate(uniform), "uniform").pvalue
    hold(found)


def by_rejection(count, prior, rng):
    """Numbers of nodes and of instantaneous edges, drawn until the outcome has parent and child."""
    found = []
    for _ in range(count):
        nodes = rng.integers(prior.nodes[0], prior.nodes[1] + 1)
        p = max(rng.beta(*prior.edges.beta), prior.edges.floor / nodes**prior.edges.power)
        share = prior.hidden * rng.random()
        while True:
            edges = np.triu(rng.random((nodes, nodes)) < p, 1)
            visible = np.flatnonzero(rng.random(nodes) >= share)  # labels, in no order of the graph
            if len(visible) < 2:
                continue
            outcome = rng.permutation(nodes)[visible[-1]]
            if edges[outcome].any() and edges[:, outcome].any():
                break
        found.append((nodes, edges.sum()))
    return np.array(found)


def test_instantaneous_edges_are_those_of_the_papers_rejection_sampler(diverse):
    theirs = by_rejection(6000, load_prior("diverse"), np.random.default_rng(1))
    found = {}
    for low, high in ((3, 4), (5, 6), (7, 8), (9, 10)):
        ours = (low <= diverse["nodes"]) & (diverse["nodes"] <= high)
        other = (low <= theirs[:, 0]) & (theirs[:, 0] <= high)
        found[f"{low} to {high}"] = same_counts(
            diverse["edges at once"][ours], theirs[other, 1].astype(int)
        )
    hold(found)


def test_interventions_are_the_priors():
    said = load_prior("diverse").intervention
    found = interventions_of("diverse", 4000)
    lengths = np.bincount(found["length"], minlength=STEPS - 9)[10:]
    rng = np.random.default_rng(2)
    room = STEPS - drawn("diverse", 4000)[1].length - 9
    within = found["onset, of the room"] + (rng.random(4000) - 0.5) / room
    hold(
        {
            "kind": as_shares(np.bincount(found["kind"]), [said.kinds[name] for name in KINDS]),
            "shape": as_shares(np.bincount(found["shape"]), [said.shapes[name] for name in SHAPES]),
            "length": as_shares(lengths, np.ones(STEPS - 19)),
            "onset": stats.kstest(within, "uniform").pvalue,
            "hard": stats.kstest(found["hard value"], stats.norm(0, said.value).cdf).pvalue,
            "soft": stats.kstest(found["soft value"], stats.norm(0, said.shift).cdf).pvalue,
        }
    )


def test_two_targets_are_left_out_only_where_they_would_leave_nothing_to_ask():
    """Ours by choice: targets are visible and move a visible node; the package's may do neither."""
    scm, act = drawn("diverse", 4000)
    two = (act.targets >= 0).sum(axis=1) == 2
    assert (act.targets[:, 0] >= 0).all()
    seen = scm.node & ~scm.latent
    for slot in (0, 1):
        hit = act.targets[:, slot] >= 0
        assert np.take_along_axis(seen, act.targets[:, slot, None], axis=1)[hit].all()
    assert (seen.sum(axis=1)[two] >= 3).all()
    large = seen.sum(axis=1) >= 8
    share = stats.binomtest(int(two[large].sum()), int(large.sum()), 0.5)
    assert share.proportion_ci(1 - ALPHA).high > 0.4


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("dotime") / "draws.npz"
    script = Path(__file__).with_name("dotime_draws.py")
    subprocess.run(
        [sys.executable, str(script), str(out), "10000", "300"],
        check=True,
        env=os.environ | {"PYTHONPATH": FOLDER, "OMP_NUM_THREADS": "1"},
    )
    return dict(np.load(out))


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="DOTIME: the folder of the unpacked dotime wheel")
def test_draws_are_the_packages(package):
    """10,000 worlds and interventions, and effects within structures.

    Left out, since ours differ by choice: hidden nodes and targets (ours leave something to ask).
    """
    found = {}

    def compare(name, ours):
        theirs = package[name]
        if theirs.dtype.kind == "U":
            names = {"shape": PACKAGE_SHAPES, "kind": PACKAGE_KINDS}.get(
                name.split()[-1], MECHANISMS
            )
            theirs = np.array([names.index(one) for one in theirs])
        if np.unique(np.concatenate([theirs, ours])).size < 200:
            found[name] = same_counts(ours.astype(int), theirs.astype(int))
        else:
            found[name] = stats.ks_2samp(ours, theirs).pvalue

    counts = {"diverse": 7000, "chain": 1500, "back_door": 1000, "front_door": 1000,
              "instrumental_variable": 1000}  # fmt: skip
    for name, count in counts.items():
        for what, ours in worlds_of(name, count).items():
            constant = what.startswith("noise sd") and name not in ("diverse", "chain")
            if constant:
                np.testing.assert_allclose(ours, 0.3, rtol=1e-6)
                np.testing.assert_allclose(package[f"{name} {what}"], 0.3, rtol=1e-6)
            else:
                compare(f"{name} {what}", ours)
    for what, ours in interventions_of("diverse", 7000).items():
        compare(f"intervention {what}", ours)

    scm, _ = drawn("regime", 1500)
    compare("regime number", scm.regimes)
    exists = np.arange(3) < scm.regimes[:, None]
    at_once = scm.edges[:, :, 0].sum(axis=(2, 3))
    compare("regime edges at once", np.where(exists, at_once, 0).sum(axis=1))
    for number in (2, 3):
        stays = np.einsum("brr->br", scm.transition)[scm.regimes == number][:, :number]
        compare(f"regime stays, of {number}", stays.ravel())

    scm, _ = drawn("continuous", 1000)
    compare("continuous decay", scm.decay.ravel())
    compare("continuous diffusion", scm.scale.ravel())
    compare("continuous weight", scm.weights[scm.edges])

    keys = jax.vmap(root_key_of)(jnp.arange(2000))
    for name in ("back_door", "front_door", "instrumental_variable"):
        made = jax.device_get(sample_episodes(keys=keys, prior=name, steps=SHORT))
        row, asked = np.arange(2000), made.query.steps[:, 0]
        ours = (made.counterfactual - made.factual)[row, asked, made.query.node]
        # rounding at an effect of none: cut, as a distribution has steps there
        exact = [
            np.where(np.abs(some) < 1e-4, 0.0, some) for some in (ours, package[f"{name} effect"])
        ]
        found[f"{name} effect"] = stats.ks_2samp(*exact).pvalue
    assert len(found) > 50
    hold(found)

"""Episodes of random numbers, in the shapes of a prior's: for tests of what handles episodes.

No world is simulated and nothing is compiled; every array is a function of the episode's key.
"""

import jax
import numpy as np

from whatif_jax.tscm import SCM, Episode, Intervention, Prior, Query
from whatif_jax.tscm.graphs import sizes_of
from whatif_jax.tscm.prior import structures


def made_episodes(*, keys, prior: Prior, steps: int = 200) -> Episode:
    """In place of `sample_episodes`."""
    words = np.asarray(jax.random.key_data(keys))
    found = [made_episode(tuple(map(int, row)), prior, steps) for row in words]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def made_episode(seed, prior: Prior, steps: int) -> Episode:
    """One episode; hidden nodes, two targets and every kind of intervention come up."""
    random = np.random.default_rng(seed)
    nodes, lags, regimes = sizes_of(prior)
    runs = random.normal(0, 3, (3, steps, nodes)).astype(np.float32)
    onset = int(random.integers(10, steps - 20))
    length = 1 if prior.intervention.single_step else int(random.integers(10, steps - onset + 1))
    kind = shape = 0
    if prior.graph == "structure":
        names = structures()[prior.structure].names()
        node, latent = np.ones(nodes, bool), np.array([name == "U" for name in names])
        targets, asked = [names.index("A"), -1], names.index("Y")
    else:
        node = np.arange(nodes) < random.integers(max(4, prior.nodes[0]), nodes + 1)
        latent = node & (random.random(nodes) < 0.3)
        latent[random.choice(np.flatnonzero(node), 3, replace=False)] = False
        *targets, asked = random.choice(np.flatnonzero(node & ~latent), 3, replace=False)
        targets = [targets[0], targets[1] if random.random() < 0.5 else -1]
        kind, shape = int(random.integers(3)), int(random.integers(4))
    step = np.arange(steps)
    active = (step >= onset) & (step < onset + length)
    value = np.full(steps, random.normal(), np.float32)
    if kind == 2:
        value = profile(shape, step - onset, length, random)
    values = np.repeat(value[:, None], 2, axis=1)
    mode = int(random.integers(5)) if kind == 0 and prior.graph != "structure" else 0
    if mode >= 2:
        values[:, 1] += 1
    offsets = np.minimum(onset + length + np.arange(len(prior.query.offsets)), steps - 1)
    kinds = [np.int32(number) for number in (kind, shape, mode)]
    where = [np.array(targets, np.int32), np.int32(onset), np.int32(length)]
    return Episode(
        scm=SCM(
            edges=np.zeros((regimes, lags + 1, nodes, nodes), bool),
            weights=random.normal(size=(regimes, lags + 1, nodes, nodes)).astype(np.float32),
            bias=np.zeros((regimes, nodes), np.float32),
            mechanism=np.zeros((regimes, nodes), np.int32), noise=np.zeros(nodes, np.int32),
            scale=np.ones(nodes, np.float32), decay=np.zeros(nodes, np.float32), node=node,
            latent=latent, transition=np.ones((regimes, regimes), np.float32),
            regimes=np.int32(regimes),
        ),
        intervention=Intervention(*kinds, *where, active, values),
        times=step.astype(np.float32), factual=runs[0], interventional=runs[1],
        counterfactual=np.where((step < onset)[:, None], runs[0], runs[2]),
        query=Query(np.int32(asked), offsets.astype(np.int32)),
        redraws=np.int32(random.integers(3)), finite=np.bool_(True),
    )  # fmt: skip


def profile(shape, since, length, random):
    """Of size 2, as the prior's."""
    if shape == 0:
        return np.where(since >= length // 2, 2, -2).astype(np.float32)
    if shape == 1:
        return np.float32(-2 + 4 * since / length)
    if shape == 2:
        return np.float32(2 * np.sin(2 * np.pi / length * since))
    return random.normal(0, 2, len(since)).astype(np.float32)

"""Questions by hand: linear worlds of a structure in NumPy, and what may be seen of them."""

import jax
import jax.numpy as jnp
import numpy as np

from eval.tscm import Question, baselines
from whatif_jax.tscm import Query, intervene, structures


def linear_series(structure, steps=200, seed=0, weight=0.6, own=0.4):
    """Values [T, N] in float64: all edges of one weight, Gaussian noise of 0.5."""
    found = structures()[structure]
    names = found.names()
    now, later = found.pairs(found.now), (*found.pairs(found.lagged),)
    later = (*later, *found.pairs(found.also_lagged))
    noise = np.random.default_rng(seed).normal(0, 0.5, (steps + 50, len(names)))
    series = np.zeros_like(noise)
    for step in range(1, len(noise)):
        for node in range(len(names)):
            total = 0.3 + own * series[step - 1, node] + noise[step, node]
            total += weight * sum(series[step, parent] for parent, child in now if child == node)
            total += weight * sum(
                series[step - 1, parent] for parent, child in later if child == node
            )
            series[step, node] = total
    return series[50:].astype(np.float32).astype(np.float64)


def question_by_hand(
    structure, series, onset, value=2.0, length=1, kind="hard", offsets=(0,), target="A", query="Y"
):
    """A question of one intervention; U is latent."""
    names = structures()[structure].names()
    steps = len(series)
    visible = np.array([name != "U" for name in names])
    seen = np.arange(steps) < onset
    shown = np.where(seen[:, None] & visible, series, 0.0)
    return Question(
        series=jnp.asarray(shown, jnp.float32),
        seen=jnp.asarray(seen),
        visible=jnp.asarray(visible),
        times=jnp.arange(steps, dtype=jnp.float32),
        intervention=intervene(
            names.index(target), value, onset=onset, length=length, steps=steps, kind=kind
        ),
        query=Query(
            jnp.asarray(names.index(query), jnp.int32),
            jnp.asarray([onset + offset for offset in offsets], jnp.int32),
        ),
    )


def stacked(questions):
    """Questions of one shape with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *questions)


def estimated(name, question, structure):
    """The estimate of one question, by a compiled program."""
    found = baselines()[name].estimate_many(stacked([question]), structure)
    return jax.tree.map(lambda leaf: leaf[0], found)

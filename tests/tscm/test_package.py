"""Agreement with the dotime package: its own worlds, noise and interventions, read into ours.

The package is not a dependency. Its wheel, unpacked, is put on the path of a process of its own:
`DOTIME=/folder/of/the/unpacked/wheel pytest -m slow tests/tscm/test_package.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tscm import SCM, Noise, intervene, simulate, simulate_continuous
from whatif_jax.tscm.names import MECHANISMS

FOLDER = os.environ.get("DOTIME", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="DOTIME: the folder of the unpacked dotime wheel"),
]
NODES, LAGS, STEPS, BURN_IN = 10, 3, 40, 10


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("dotime") / "cases.npz"
    script = Path(__file__).with_name("dotime_cases.py")
    subprocess.run(
        [sys.executable, str(script), str(out)], check=True, env=os.environ | {"PYTHONPATH": FOLDER}
    )
    return np.load(out)


def padded(array, *shape):
    return np.pad(array, [(0, to - size) for size, to in zip(array.shape, shape, strict=True)])


def scm_of(edges, weights, bias, mechanisms, scale, decay):
    nodes = scale.shape[0]
    return SCM(
        edges=jnp.asarray(edges[None] > 0), weights=jnp.asarray(weights[None], jnp.float32),
        bias=jnp.asarray(bias[None], jnp.float32), mechanism=jnp.asarray(mechanisms[None]),
        noise=jnp.zeros(nodes, jnp.int32), scale=jnp.asarray(scale, jnp.float32),
        decay=jnp.asarray(decay, jnp.float32), node=jnp.ones(nodes, bool),
        latent=jnp.zeros(nodes, bool), transition=jnp.ones((1, 1)), regimes=jnp.int32(1),
    )  # fmt: skip


def test_runs_are_the_packages(package):
    """9 structures with and without lagged edges, 9 mechanisms, hard, soft and varying ones."""
    run = jax.jit(simulate, static_argnames="burn_in")
    seen = set()
    for place, case in enumerate(json.loads(str(package["cases"]))):
        if "kind" not in case:
            continue
        read = {
            name: package[f"{place}_{name}"]
            for name in ("edges", "weights", "bias", "values", "noise", "factual", "acted")
        }
        count = read["bias"].shape[0]
        numbers = np.array([MECHANISMS.index(name) for name in case["kinds"]])
        shape = (LAGS + 1, NODES, NODES)
        scm = scm_of(
            padded(read["edges"], *shape), padded(read["weights"], *shape),
            padded(read["bias"], NODES), padded(numbers, NODES), np.zeros(NODES), np.zeros(NODES),
        )  # fmt: skip
        noise = Noise(
            jnp.asarray(padded(read["noise"], STEPS + BURN_IN, NODES), jnp.float32),
            jnp.zeros(STEPS + BURN_IN),
        )
        kind = {"time_varying": "varying"}.get(case["kind"], case["kind"])
        act = intervene(
            tuple(case["targets"]), read["values"], onset=case["onset"], length=case["length"],
            steps=STEPS, kind=kind,
        )  # fmt: skip
        seen |= {kind}
        none = intervene(tuple(case["targets"]), 0.0, onset=0, length=1, steps=STEPS, kind="soft")
        for name, given in (("factual", none), ("acted", act)):
            found = np.asarray(run(scm, noise, given, burn_in=BURN_IN))[:, :count]
            assert np.abs(read[name]).max() < 100, "the package's run is no zeroed or clipped one"
            np.testing.assert_allclose(
                found, read[name], rtol=1e-5, atol=1e-5, err_msg=f"{case['name']} {name}"
            )
    assert seen == {"hard", "soft", "varying"}


def test_continuous_runs_are_the_packages(package):
    run = jax.jit(simulate_continuous, static_argnames="substeps")
    for place, case in enumerate(json.loads(str(package["cases"]))):
        if "kind" in case:
            continue
        read = {
            name: package[f"{place}_{name}"]
            for name in ("weights", "times", "noise", "decay", "scale", "factual", "acted")
        }
        nodes = len(read["decay"])
        scm = scm_of(
            (read["weights"] != 0)[None].astype(float), read["weights"][None], np.zeros(nodes),
            np.zeros(nodes, int), read["scale"], read["decay"],
        )  # fmt: skip
        values = np.concatenate([np.zeros((4, nodes)), read["noise"]])
        noise = Noise(jnp.asarray(values, jnp.float32), jnp.zeros(len(values)))
        times = jnp.asarray(read["times"])
        act = intervene(
            case["target"], 1.7, onset=case["onset"], length=case["length"], steps=STEPS
        )
        none = intervene(case["target"], 0.0, onset=0, length=1, steps=STEPS, kind="soft")
        for name, given in (("factual", none), ("acted", act)):
            found = run(scm, noise, times, given, substeps=4)
            np.testing.assert_allclose(
                found, read[name], rtol=1e-5, atol=1e-5, err_msg=f"{case['name']} {name}"
            )

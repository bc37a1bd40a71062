"""Draws of the dotime package, written as an .npz: `python dotime_draws.py OUT WORLDS EFFECTS`.

The package is on the path. Worlds and interventions are drawn and not simulated, but for effects
within structures, of short series.
"""

import sys

import numpy as np
import torch
from dotime.continuous.tscm_sampler import ContinuousTSCMSampler
from dotime.extended import ExtendedDoTime
from dotime.interventions import InterventionSampler
from dotime.prior import DoTime
from dotime.regime_switching import RegimeSwitchingTemporalSCM
from dotime.tscm_sampler import TSCMSampler, TSCMStructure

NAMES = {
    "Identity": "linear", "Tanh": "tanh", "TanhX2": "tanh_square", "TanhReLU": "tanh_relu",
    "ReLU": "relu", "Sin": "sin", "Cos": "cos", "Abs": "abs", "Square": "square",
}  # fmt: skip
KINDS = {"Normal": 0, "Uniform": 1, "Laplace": 2}
STEPS, SHORT = 200, 40
STRUCTURES = ("back_door", "front_door", "instrumental_variable")


def describe(found, prefix, scm):
    """Counts and numbers of one world, appended to lists by name."""

    def add(name, *values):
        found.setdefault(f"{prefix} {name}", []).extend(values)

    order, lags = scm._topo, scm._K
    add("nodes", len(order))
    add("edges at once", scm._G_0.number_of_edges())
    for lag, edges in enumerate(scm._G_lags, start=1):
        own = int(np.trace(edges))
        add(f"self-edges of lag {lag}", own)
        add(f"other edges of lag {lag}", int(edges.sum()) - own)
    for lag in range(lags + 1, 4):
        add(f"self-edges of lag {lag}", 0)
        add(f"other edges of lag {lag}", 0)
    for name in order:
        made, noise = scm.mechanisms[name], scm.noise[name].distribution
        add("mechanism", NAMES[type(made.activation).__name__])
        add("bias", made.bias.item())
        where = "with parents" if scm._G_0.in_degree(name) else "without parents"
        add(f"noise sd {where}", float(noise.stddev))
        add(f"noise kind {where}", KINDS[type(noise).__name__])
        for parent in scm._G_0.predecessors(name):
            add("weight", made.weights_instant[parent].item())


def acted(found, spec):
    """Numbers of one intervention."""

    def add(name, *values):
        found.setdefault(f"intervention {name}", []).extend(values)

    kind, values = spec.intervention_type.value, spec.values
    add("kind", kind)
    add("length", len(spec.times))
    add("onset, of the room", (spec.times[0] - 10 + 0.5) / (STEPS - len(spec.times) - 10 + 1))
    if kind == "time_varying":
        add("shape", type(values).__name__.removesuffix("Intervention").lower())
    else:
        add(f"{kind} value", values)


def main(out, worlds, effects):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - what the package draws regimes from
    found = {}
    count = {"diverse": 70, "chain": 15, "regime": 15}  # of a hundred, as in the generic prior
    for name, share in count.items():
        chain, regime = float(name == "chain"), float(name == "regime")
        prior = DoTime(seed=1, chain_prob=chain, regime_switching_prob=regime)
        for _ in range(worlds * share // 100):
            scm = prior.sample_scm()
            if isinstance(scm, RegimeSwitchingTemporalSCM):
                found.setdefault("regime number", []).append(scm.num_regimes)
                found.setdefault(f"regime stays, of {scm.num_regimes}", []).extend(
                    np.diag(scm.transition_matrix)
                )
                found.setdefault("regime edges at once", []).append(
                    sum(dag.G_0.number_of_edges() for dag in scm.dags)
                )
                continue
            describe(found, name, scm)
    draw = InterventionSampler(5, STEPS, generator=torch.Generator().manual_seed(2))
    for _ in range(worlds):
        acted(found, draw.sample())
    for name in STRUCTURES:
        generator = torch.Generator().manual_seed(3)
        sampler = TSCMSampler(TSCMStructure(name), sigma_w=0.5, sigma_b=0.25)
        for _ in range(worlds // 10):
            describe(found, name, sampler.sample(generator))
        prior = ExtendedDoTime(tscm_structure=name, pair_mode="counterfactual", seed=4)
        found[f"{name} effect"] = [
            prior.generate_sample(T=SHORT)["Y_causal_effect"].item() for _ in range(effects)
        ]
    generator = torch.Generator().manual_seed(5)
    sampler = ContinuousTSCMSampler(TSCMStructure("back_door"))
    for _ in range(worlds // 10):
        for made in sampler.sample(generator).mechanisms:
            found.setdefault("continuous decay", []).append(float(made.theta))
            found.setdefault("continuous diffusion", []).append(float(made.sigma))
            found.setdefault("continuous weight", []).extend(map(float, made.parent_weights))
    np.savez(out, **{name: np.array(values) for name, values in found.items()})


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

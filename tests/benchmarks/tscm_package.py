"""The dotime package, timed: `python tscm_package.py`, the package on its path.

Answers each line of its input, a prior and seconds, by a line of JSON. A process of its own, with
one thread: it shares nothing with ours but the machine.
"""

import json
import sys
import time
import warnings

import torch
from dotime.continuous.extended_prior import ContinuousExtendedPrior
from dotime.extended import ExtendedDoTime
from dotime.prior import DoTime

STEPS = 200


def makers():
    """Calls that return (factual, interventional) of an episode, both arms; by prior."""
    generic, regime = DoTime(seed=0), DoTime(seed=1)
    named = {name: ExtendedDoTime(tscm_structure=name) for name in _NAMED}
    continuous = ContinuousExtendedPrior("back_door")
    numbers = iter(range(10**9))

    def of(sample):
        return sample["X_obs"], sample["X_int"]

    return {
        "generic": lambda: generic.generate_pair(T=STEPS)[:2],
        "regime": lambda: regime.generate_regime_pair(STEPS, 2 + next(numbers) % 2)[:2],
        "continuous": lambda: of(continuous.generate_sample(T=STEPS)),
        **{name: lambda one=one: of(one.generate_sample(T=STEPS)) for name, one in named.items()},
    }


_NAMED = ("back_door", "instrumental_variable")


def main():
    """Serve until the input ends."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # that an arm diverged and was zeroed, which is counted here
    calls = makers()
    for call in calls.values():
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        episodes = zeroed = 0
        start, cpu = time.perf_counter(), time.process_time()
        while episodes == 0 or time.perf_counter() - start < float(seconds):
            arms = calls[name]()
            zeroed += any(not arm.any() for arm in arms)
            episodes += 1
        took = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        print(json.dumps({"episodes": episodes, "zeroed": zeroed, **took}), flush=True)


main()

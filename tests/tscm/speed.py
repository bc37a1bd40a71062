"""Episodes per CPU-second.

`taskset -c 1 python -m tests.tscm.speed 1024 back_door diverse_small`
"""

import resource
import sys
import time

import jax
import jax.numpy as jnp

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import sample_episodes


def main(rows: int, names: list[str], steps: int = 200) -> None:
    """Print one line a prior: all three runs of each episode, compilation apart."""
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(0), number))
    keys = fold(jnp.arange(rows, dtype=jnp.uint32))
    for name in names:
        start = time.process_time()
        found = jax.block_until_ready(sample_episodes(keys=keys, prior=name, steps=steps))
        compiled, best = time.process_time() - start, float("inf")
        for _ in range(3):
            start = time.process_time()
            jax.block_until_ready(sample_episodes(keys=keys, prior=name, steps=steps))
            best = min(best, time.process_time() - start)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{name}: {rows / best:,.0f} episodes a CPU-second; first call {compiled:.1f} CPU-s; "
            f"redraws {float(found.redraws.mean()):.2f}; finite {bool(found.finite.all())}; "
            f"peak {memory:.2f} GiB",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

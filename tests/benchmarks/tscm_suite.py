"""All of generic-v1 in a process of its own, as JSON: `python -m tests.benchmarks.tscm_suite`."""

import json
import resource
import sys
import time

import jax
import numpy as np

from whatif_jax.tscm import load_episode_suite
from whatif_jax.tscm.workers import workers

BATCH = 1024


def peak() -> float:
    """GiB that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Every episode, made and dropped; programs are compiled anew."""
    jax.config.update("jax_enable_compilation_cache", False)
    suite = load_episode_suite("generic")
    parts = {part.name: part for part in suite.parts}
    found: dict[str, float] = {"episodes": suite.episodes, "threads": workers()}

    def clock() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    wall, cpu = clock()
    # one batch of every part: compiles
    first = np.concatenate([np.arange(BATCH) + part.first for part in parts.values()])
    for *_, episode in suite.batches(batch_size=BATCH, numbers=first):
        jax.block_until_ready(episode)
    then, spent = clock()
    found |= {"compile_wall": then - wall, "compile_cpu": spent - cpu, "compile_peak": peak()}
    count = redrawn = 0
    for *_, episode in suite.batches(batch_size=BATCH):
        count += len(episode.finite)
        redrawn += int(np.sum(np.asarray(episode.redraws) > 0))
        assert bool(np.all(episode.finite))
    wall, cpu = clock()
    assert count == suite.episodes
    found |= {"wall": wall - then, "cpu": cpu - spent, "redrawn": redrawn / count, "peak": peak()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()

"""Temporal causal worlds: episodes a second of ours and of the dotime package, in one run.

The package is no dependency. `DOTIME` names the folder of its unpacked wheel; without it, pip puts
the wheel, without what it depends on, into a folder of this benchmark's own. It needs torch and
networkx. Rounds alternate between both; a round's ratio is what both did within seconds of each
other, so that the machine's drift is in it little.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np

from whatif_jax.tscm import EpisodeStream, Prior, load_prior
from whatif_jax.tscm.graphs import sizes_of
from whatif_jax.tscm.prior import mixture_of

STEPS, GOAL = 200, 2000
PACKAGE = "dotime==0.2.0"
SHARES: Mapping[str, Mapping[str, float]] = {
    "generic": mixture_of("generic"),
    "back_door": {"back_door": 1.0},
    "instrumental_variable": {"instrumental_variable": 1.0},
    "regime": {"regime_small": 0.5, "regime_large": 0.5},
    "continuous": {"continuous, 1 sub-step": 1.0},
}
"""Buckets of every prior of the package's; ours has more sub-steps by choice."""
CHOICES = {"continuous, 8 sub-steps": "continuous"}
NOTES = f"""\
Both make episodes of {STEPS} steps: the package two runs of each, factual and interventional, ours
three, the counterfactual one as well. The package runs as it is used, on one thread, its objects
made before. Ratios are medians over rounds, of episodes a CPU-second; on an accelerator ours are
episodes a second. `redrawn` is the share of our episodes that were drawn again because a run left
the prior's limit, which is in their time; `zeroed` the share of the package's with a run of zeros,
which it returns as they are (structures: after 20 attempts).

Regimes: the package's mechanisms read no parents (a fault of its default), ours do. Continuous: the
package takes one sub-step between observations, so the row compares one with one; ours takes eight
by default, which stands below."""


def prior_of(bucket: str) -> Prior:
    """The prior of a row's name."""
    if bucket.startswith("continuous"):
        return load_prior("continuous", {"time": {"substeps": 1 if ", 1 " in bucket else 8}})
    return load_prior(bucket)


class Bucket:
    """One program of ours: how long it takes to compile, and seconds of its batches."""

    def __init__(self, name: str, rows: int) -> None:
        self.prior, self.rows, self.name = prior_of(name), rows, name
        self.stream = EpisodeStream(0, rows, self.prior, steps=STEPS)
        self.step, self.redrawn = 0, []
        self.compile = self.timed()["wall"]
        self.redrawn = []
        self.compile -= self.timed()["wall"]
        self.times: list[dict[str, float]] = []

    def timed(self) -> dict[str, float]:
        """Seconds an episode of the next batch."""
        wall, cpu = time.perf_counter(), time.process_time()
        batch = jax.block_until_ready(self.stream.batch_at(self.step))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.step += 1
        self.redrawn.append(float(np.mean(np.asarray(batch.episode.redraws) > 0)))
        return {"wall": wall, "cpu": cpu}

    def each(self, clock: str, place: int | None = None) -> float:
        """Seconds an episode, of one round or the median of all."""
        taken = [one[clock] / self.rows for one in self.times]
        return statistics.median(taken) if place is None else taken[place]


@contextmanager
def package(folder: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the package, which answers how many episodes it made in some seconds."""
    env = os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    script = Path(__file__).with_name("tscm_package.py")
    child = subprocess.Popen(
        [sys.executable, str(script)],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.stdin.close()
        child.wait()


def asked(child: subprocess.Popen[str], name: str, seconds: float) -> dict[str, float]:
    """What the package did in some seconds."""
    print(name, seconds, file=child.stdin, flush=True)
    return json.loads(child.stdout.readline())


@contextmanager
def folder_of_the_package() -> Iterator[str]:
    """Where the package lies."""
    if os.environ.get("DOTIME"):
        yield os.environ["DOTIME"]
        return
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", folder, PACKAGE], check=True)
        yield folder


def run(repeats: int, seconds: float) -> str:
    """Measure, and return the tables as Markdown."""
    whole = whole_suite()  # first: its peak is that of a process that did nothing else
    jax.config.update("jax_enable_compilation_cache", False)  # compile times are cold ones
    accelerated = jax.default_backend() != "cpu"
    names = dict.fromkeys(name for shares in SHARES.values() for name in shares)
    rows = 16384 if accelerated else 1024
    buckets = {name: Bucket(name, rows) for name in (*names, *CHOICES)}
    theirs: dict[str, list[dict[str, float]]] = {name: [] for name in SHARES}
    with folder_of_the_package() as folder, package(folder) as child:
        for _ in range(repeats):
            for case, shares in SHARES.items():
                theirs[case].append(asked(child, case, seconds))
                for name in shares:
                    buckets[name].times.append(buckets[name].timed())
            for name in CHOICES:
                buckets[name].times.append(buckets[name].timed())
    clock = "wall" if accelerated else "cpu"

    def ours(case: str, what: str, place: int | None = None) -> float:
        """Episodes a second."""
        return 1 / sum(
            share * buckets[name].each(what, place) for name, share in SHARES[case].items()
        )

    lines = [
        "# Temporal causal worlds",
        "",
        "`DOTIME=/folder/of/the/unpacked/wheel python -m tests.benchmarks tscm`",
        "",
        f"{platform.machine()}, {os.cpu_count()} CPU cores, {jax.devices()[0].device_kind} device, "
        f"JAX {jax.__version__}, {PACKAGE}, batches of {rows:,}, {repeats} rounds of "
        f"{seconds:g} s of the package, load {os.getloadavg()[0]:.1f} at the end.",
        "",
        f"| prior | ours, episodes/s | ours, a CPU-second | package, a CPU-second | times | "
        f"goal {GOAL:,} | redrawn | zeroed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case, shares in SHARES.items():
        rates = [one["episodes"] / one["cpu"] for one in theirs[case]]
        ratio = statistics.median(
            ours(case, clock, place) / rate for place, rate in enumerate(rates)
        )
        count = sum(one["episodes"] for one in theirs[case])
        redrawn = sum(share * np.mean(buckets[name].redrawn) for name, share in shares.items())
        lines.append(
            f"| {case} | {ours(case, 'wall'):,.0f} | {ours(case, 'cpu'):,.0f} | "
            f"{count / sum(one['cpu'] for one in theirs[case]):.2f} | {ratio:,.0f} | "
            f"{'reached' if ratio >= GOAL else f'{ratio / GOAL:.0%} of it'} | {redrawn:.0%} | "
            f"{sum(one['zeroed'] for one in theirs[case]) / count:.0%} |"
        )
    lines += ["", *NOTES.splitlines(), "", *bucket_rows(buckets)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    lines += [
        "",
        f"This process, with all of these programs, had {memory:.2f} GiB at most.",
        "",
        "## 100,000 episodes",
        "",
        f'All {whole["episodes"]:,} of generic-v1 by `load_episode_suite("generic").batches()`, in '
        f"a process of its own with {whole['threads']} threads: {whole['wall']:.1f} s (goal: 60), "
        f"{whole['cpu']:.1f} CPU-seconds, {whole['episodes'] / whole['wall']:,.0f} episodes/s; "
        f"before it, one batch of every part, its five programs compiled anew, "
        f"{whole['compile_wall']:.1f} s and {whole['compile_cpu']:.1f} CPU-seconds. "
        f"{whole['redrawn']:.0%} were redrawn, none is zeroed. Peak memory {whole['peak']:.2f} GiB "
        f"(goal: 2).",
    ]
    return "\n".join(lines) + "\n"


def bucket_rows(buckets: Mapping[str, Bucket]) -> list[str]:
    """A line a program."""
    lines = [
        "| program | nodes, lags, regimes | compile and trace, s | episodes/s | a CPU-second | "
        "redrawn |",
        "|---|---|---|---|---|---|",
    ]
    for name, bucket in buckets.items():
        lines.append(
            f"| {name} | {', '.join(map(str, sizes_of(bucket.prior)))} | {bucket.compile:.1f} | "
            f"{1 / bucket.each('wall'):,.0f} | {1 / bucket.each('cpu'):,.0f} | "
            f"{np.mean(bucket.redrawn):.0%} |"
        )
    return lines


def whole_suite() -> dict[str, float]:
    """The 100,000-episode suite in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.tscm_suite"], check=True, capture_output=True
    )
    return json.loads(found.stdout)

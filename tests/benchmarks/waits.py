"""What is waited for before the first tasks: imports, compilation, whole exports.

Each in a process of its own; `cold` has nothing compiled before, `warm` what the cold one kept.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STARTUP = """
import sys, time
start = time.perf_counter()
import whatif_jax
took = time.perf_counter() - start
assert "jax" not in sys.modules
print(took)
"""
FIRST_BATCH = """
import time
start = time.perf_counter()
from whatif_jax import load_suite
batch = next(load_suite("whatif-v1").batches(64))
batch.task.history.block_until_ready()
print(time.perf_counter() - start)
"""
FIRST_STREAM = """
import time
start = time.perf_counter()
from whatif_jax import TaskStream
stream = TaskStream(0, 64, buckets=[(2048, 256)])
stream.batch_at(0).task.history.block_until_ready()
print(time.perf_counter() - start)
"""
# What XLA takes, as JAX reports it; the rest of the first call, less a second one, is JAX's own.
STREAM_BUCKET = """
import time
import jax
from whatif_jax import TaskStream
compiled = []
def listen(event, seconds, **about):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)
stream = TaskStream(0, 64, buckets=[(2048, 256)])
jax.block_until_ready(stream.systems.values)
jax.monitoring.register_event_duration_secs_listener(listen)
times = []
for step in range(2):
    start = time.perf_counter()
    jax.block_until_ready(stream.batch_at(step).task)
    times.append(time.perf_counter() - start)
print(times[0] - times[1] - sum(compiled), sum(compiled))
"""
EXPORTS = ("--limit 1000", "--sample 1000")


def in_new_process(script: str) -> list[float]:
    """Seconds that a script prints in a new process that keeps no compiled programs."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": ""}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [float(number) for number in done.stdout.split()]


def startup_rows() -> list[str]:
    """The table of imports and first batches, in seconds."""
    traced, compiled = in_new_process(STREAM_BUCKET)
    started, batch, stream = (
        in_new_process(script)[0] for script in (STARTUP, FIRST_BATCH, FIRST_STREAM)
    )
    return [
        "| start-up, nothing compiled before | seconds |",
        "|---|---|",
        f"| `import whatif_jax` (JAX not imported, no backend) | {started:.2f} |",
        f"| new process to first suite batch of 64 | {batch:.1f} |",
        f"| new process to first stream batch of 64 at C2 | {stream:.1f} |",
        f"| - trace and lower its bucket | {traced:.1f} |",
        f"| - compile its bucket | {compiled:.1f} |",
    ]


def _export(options: str, folder: Path, cache: Path) -> tuple[float, float]:
    """Wall and processor seconds of one export."""
    environment = {key: value for key, value in os.environ.items() if "COMPILATION" not in key}
    command = [sys.executable, "-m", "whatif_jax.cli", "export", str(folder), *options.split()]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, env={**environment, "XDG_CACHE_HOME": str(cache)}, capture_output=True, check=True
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def export_rows() -> list[str]:
    """The table of exports, cold and warm."""
    lines = [
        "| command line | cold, s | - processor, s | warm, s | - processor, s |",
        "|---|---|---|---|---|",
    ]
    for options in EXPORTS:
        with tempfile.TemporaryDirectory() as name:
            times = [_export(options, Path(name) / run, Path(name)) for run in ("cold", "warm")]
        cells = " | ".join(f"{seconds:.1f}" for pair in times for seconds in pair)
        lines.append(f"| `whatif-jax export {options}` | {cells} |")
    return lines

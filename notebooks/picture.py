"""Draw the README's picture, a Replay/Novel pair: `python notebooks/picture.py [FILE.png]`."""

import sys
from pathlib import Path

from whatif_jax import load_suite, plot_task

PAIR = {
    "system": "epanet",
    "target": "pressure_22",
    "context_pair": "C1",
    "k": 2,
    "event_length": 64,
    "setting": "most",
}

if __name__ == "__main__":
    pair = load_suite("whatif-v1").where(**PAIR)
    plot_task(
        [pair.spec(task_id) for task_id in pair.column("task_id").tolist()],
        pair.systems,
        path=sys.argv[1] if sys.argv[1:] else Path(__file__).with_name("replay_novel.png"),
    )

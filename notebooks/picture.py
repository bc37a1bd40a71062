"""Draw the README's picture, a Replay/Novel pair: `python notebooks/picture.py [FILE.png]`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from whatif_jax import Suite, load_suite

# Okabe and Ito's colours, told apart with any colour vision
INK, ORANGE, BLUE, GREEN, SHADE = "#222222", "#D55E00", "#0072B2", "#009E73", "#E9E9E9"
PAIR = {
    "system": "epanet",
    "target": "pressure_22",
    "context_pair": "C1",
    "k": 2,
    "event_length": 64,
    "setting": "most",
}


def draw(suite: Suite, path: Path) -> None:
    """Draw the pair and save it."""
    pair = suite.where(**PAIR)
    (row, _) = pair.table.to_pylist()
    fields = next(pair.batches(2)).to_numpy()
    system = next(system for system in pair.catalog if system.name == row["system"])
    target = system.target(row["target"])
    series = suite.systems.series(suite.systems.row(system.name, target.name))
    usual = series[row["window_start"] :][: row["context"] + row["horizon"]]
    past = np.arange(-row["context"], 0)
    ahead = np.arange(row["horizon"])

    figure, axes = plt.subplots(
        2, 2, figsize=(10, 4.6), sharex=True, sharey="row", height_ratios=(2.2, 1),
        layout="constrained",
    )  # fmt: skip
    for column, kind in enumerate(pair.column("future")):
        top, bottom = axes[:, column]
        for axis in (top, bottom):
            shade_events(axis, row)
        top.plot(np.append(past, ahead), usual, color=ORANGE, lw=1.2, ls=(0, (4, 2)),
                 label="without intervention")  # fmt: skip
        top.plot(past, fields["history"][column], color=INK, lw=1.2, label="history")
        top.plot(ahead, fields["future"][column], color=BLUE, lw=2, label="future to forecast")
        top.set_title(f"{kind.capitalize()}: " + (
            "the factors of a past event" if kind == "replay" else "factors beyond all past ones"
        ))  # fmt: skip
        for place, name in enumerate(row["covariates"]):
            values = np.concatenate(
                [fields["history_covariates"][column, place],
                 fields["future_covariates"][column, place]]
            )  # fmt: skip
            factor = values / system.covariate(name).base
            style = {"color": (GREEN, INK)[place], "ls": ("-", ":")[place], "lw": 1.6}
            bottom.plot(np.append(past, ahead), factor, label=name.replace("_", " "), **style)
        bottom.set_xlabel(
            f"step of {system.step_seconds / 60:.0f} minutes; 0 is the first to forecast"
        )
    axes[0, 0].set_ylabel(f"{target.name.replace('_', ' ')} ({target.unit})")
    axes[1, 0].set_ylabel("factor")
    axes[1, 0].set_ylim(bottom=0)  # last: it holds for both columns
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize=9)
    axes[1, 0].legend(loc="upper left", frameon=False, fontsize=9)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def shade_events(axis: Axes, row: dict) -> None:
    """Grey bands over the past events and the future one."""
    for start in row["event_starts"]:
        first = start - row["context"]
        axis.axvspan(first, first + row["event_length"], color=SHADE, lw=0)
    axis.axvspan(0, row["horizon"], color=SHADE, lw=0)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    plt.style.use("default")  # whatever the user's own settings
    draw(
        load_suite("whatif-v1"),
        Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("replay_novel.png"),
    )

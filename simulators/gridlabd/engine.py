"""Run one GridLAB-D model to its end: `python -m simulators.gridlabd.engine MODEL`.

A process of its own, because the engine closes its recorders' files only when its process ends.
"""

import sys

import gridlabd


def main(model: str) -> int:
    """Load, start and run; 0 only if all three say so."""
    # the direct binding prints what is wrong with a model and where, the isolated one does not
    engine = gridlabd.DirectGridLabD()
    # run() answers success even after a failed load, and then there is nothing to read
    for stage, call in (
        ("load", lambda: engine.load_glm([model])),
        ("start", engine.setup_after_load),
        ("run", engine.run),
    ):
        code = call()
        if int(getattr(code, "value", code)) != 0:
            print(f"\n{stage}: {code}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

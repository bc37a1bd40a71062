"""The process that a run happens in: `python -m simulators.worker REQUEST` (see isolation.py)."""

import importlib
import json
import os
import pickle
import sys
from pathlib import Path

from .errors import SimulatorError


def main(request: dict) -> int:
    """Call the runner and leave its recording, or its refusal, in the result file.

    Any other exception ends the process; its traceback is in the output, which the parent quotes.
    """
    progress = request["progress"]

    def report(done: int, total: int) -> None:
        os.write(progress, f"{done} {total}\n".encode())

    report(0, request["steps"])
    try:
        module = importlib.import_module(request["module"])
        settings = () if request["settings"] is None else (request["settings"],)
        outcome = module.simulate(
            Path(request["folder"]), request["steps"], Path(request["data"]), report, *settings
        )
    except SimulatorError as error:
        outcome = error
    temporary = Path(request["result"] + ".part")
    temporary.write_bytes(pickle.dumps(outcome))
    temporary.replace(request["result"])
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

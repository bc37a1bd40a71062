"""The one error class of the simulator runners."""

from typing import Any

__all__ = ["SimulatorError", "missing_simulator"]


class SimulatorError(RuntimeError):
    """A simulator could not be run, or did not write the series that whatif-v1.md §2 asks for.

    Attributes:
        system: name of the system, e.g. "sumo".
        field: what is wrong: a setting, an output column, a file, "simulator".
        value: the offending value.
        expected: what would have been right.
    """

    def __init__(self, system: str, field: str, value: Any, expected: str) -> None:
        super().__init__(system, field, value, expected)  # the four, so that it pickles
        self.system = system
        self.field = field
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.system}: {self.field}: {self.value}; expected {self.expected}"


def missing_simulator(system: str, package: str, error: ImportError) -> SimulatorError:
    """The refusal for a simulator that is not installed, naming the extra that installs it."""
    return SimulatorError(
        system,
        "simulator",
        f"Python package {package!r} cannot be imported ({error})",
        "it to be installed: pip install -e '.[simulators]'",
    )

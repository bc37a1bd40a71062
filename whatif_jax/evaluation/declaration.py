"""What a forecaster declares of itself: what it was trained on, and what it was told beforehand.

A suite's windows cover the whole of its series, so a forecaster that was trained on the catalog has
seen what the suite asks. Its score can be right and still say nothing about a system it has not
seen. Nothing in a forecast shows that; the forecaster has to say so.

References:
    scores.md.
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

__all__ = ["INFORMED", "TRAINED_ON", "Declaration", "DeclarationError", "declaration_of"]

# What a forecaster may say that it was trained on.
TRAINED_ON = (
    "nothing",  # it fits each history by itself
    "randomised",  # drawn responses and other series: none of a catalog's series or constants
    "published",  # weights or a service made public by others, whose word nobody here has checked
    "left-out-system",  # the catalog without the systems that `training["left_out"]` names
    "in-distribution",  # the series and constants of the systems that `training["systems"]` names
    "unknown",  # it does not say
)
# Of a forecaster that is informed and gives no reason of its own.
INFORMED = (
    "it was made knowing how the suite's responses look, so its number measures the suite as much "
    "as itself"
)
_REASON_LENGTH = 300


class DeclarationError(ValueError):
    """What a forecaster says of itself cannot be; names the forecaster and the attribute."""


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a forecaster says of itself, checked."""

    trained_on: str = "unknown"  # one of TRAINED_ON
    training: dict[str, Any] = dataclasses.field(default_factory=dict)  # JSON values, by name
    informed: str = ""  # what it was told about the responses; "" for nothing

    def split_of(self, systems: Iterable[str]) -> str:
        """How a score on tasks of some systems is to be read.

        Args:
            systems: of the tasks that were scored.

        Returns:
            "zero-shot", "left-out system", "in distribution" or "unknown". One that was trained
            without some systems is in distribution on all others.
        """
        if self.trained_on in ("nothing", "randomised", "published"):
            return "zero-shot"
        if self.trained_on == "left-out-system":
            outside = set(systems) <= set(self.training["left_out"])
            return "left-out system" if outside else "in distribution"
        return "in distribution" if self.trained_on == "in-distribution" else "unknown"


def declaration_of(forecaster: object) -> Declaration:
    """What a forecaster declares: its attributes `trained_on`, `training` and `informed`.

    Raises:
        DeclarationError: a word that is none of `TRAINED_ON`, a training that JSON cannot hold or
            that does not name the systems, or a reason that is no line of text.
    """
    name = str(getattr(forecaster, "name", getattr(forecaster, "__name__", "")))
    whose = f" of forecaster {name}" if name else ""
    trained_on = getattr(forecaster, "trained_on", "unknown")
    if trained_on not in TRAINED_ON:
        raise DeclarationError(
            f"trained_on{whose}: {str(trained_on)[:80]!r}; expected one of {', '.join(TRAINED_ON)}"
        )
    training = getattr(forecaster, "training", None) or {}
    try:
        training = json.loads(json.dumps(dict(training), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DeclarationError(
            f"training{whose}: {str(training)[:80]} ({error}); expected JSON values by name"
        ) from None
    wanted = {"left-out-system": "left_out", "in-distribution": "systems"}.get(trained_on)
    if wanted is not None:
        systems = training.get(wanted)
        named = (
            isinstance(systems, list) and systems and all(isinstance(one, str) for one in systems)
        )
        if not named:
            raise DeclarationError(
                f"training[{wanted!r}]{whose}: {str(systems)[:80]}; expected the names of the "
                f"systems, as its trained_on is {trained_on!r}"
            )
    informed = getattr(forecaster, "informed", False)
    if isinstance(informed, bool):
        informed = INFORMED if informed else ""
    text = informed if isinstance(informed, str) else None
    if text is None or "\n" in text or len(text) > _REASON_LENGTH:
        raise DeclarationError(
            f"informed{whose}: {str(informed)[:80]!r}; expected true, false, or what it knows in "
            f"one line of at most {_REASON_LENGTH} characters"
        )
    return Declaration(trained_on, training, text)

"""What a language model is asked: one series and its covariates as CSV text, under dummy names.

The procedure is the paper's (Appendix D): CSV text, dummy names, an answer in tags named after the
variable. The words are our own, and the paper's four CSV files are two here, so that every time
stamp is written once.

References:
    evaluation/scores.md.
"""

import hashlib
from typing import NamedTuple

import numpy as np

__all__ = ["PROMPT_HASH", "TARGET", "Prompt", "number", "time_stamps", "write"]

TARGET = "target_1"
START = np.datetime64("2000-01-01T00:00:00", "us")  # of the history; the true dates are nobody's
DIGITS = 6  # significant; a float32 holds little more

# The history comes before the plan: Replay and Novel tasks of a pair then share a prefix, which
# providers that cache prompts read at a lower price.
INSTRUCTIONS = """\
Below are two tables in CSV format with evenly spaced time stamps.
"history" has the past values of {target} and of {known}, which may drive it.
"plan" has the values that {known} will certainly take at the next {horizon} time stamps.

Work out from the history how {target} behaves by itself and how it responds to each covariate. \
Then forecast {target} at every time stamp of the plan, also where the plan goes beyond what the \
history has seen. Forecast the median: the value that the outcome is as likely to exceed as not.

End your reply with the forecast and nothing after it. Put it between tags that carry the \
variable's name, as pairs of a time stamp and a number:
<{target}>
({first}, number), ({second}, number), and so on
</{target}>
Write all {horizon} pairs, one for each row of the plan and in its order. Leave none out, shorten \
nothing, and write plain numbers only.
"""
PROMPT_HASH = hashlib.sha256(INSTRUCTIONS.encode()).hexdigest()[:12]


class Prompt(NamedTuple):
    """One question."""

    text: str
    time_stamps: list[str]  # H of them, those that the answer must have


def time_stamps(steps: int, step_seconds: float) -> list[str]:
    """ISO 8601 time stamps of `steps` even steps from 2000-01-01, no longer than they need be.

    Args:
        steps: how many.
        step_seconds: seconds between two, at least a microsecond.

    Raises:
        ValueError: a step that is not a positive number of at least a microsecond.
    """
    if not np.isfinite(step_seconds) or step_seconds < 1e-6:
        raise ValueError(f"step_seconds: {step_seconds}; expected at least 1e-06")
    offsets = np.rint(np.arange(steps) * (float(step_seconds) * 1e6)).astype("timedelta64[us]")
    moments = START + offsets
    for unit in ("m", "s", "ms"):
        shorter = moments.astype(f"datetime64[{unit}]")
        if np.array_equal(shorter, moments):
            return shorter.astype(str).tolist()
    return moments.astype(str).tolist()


def number(value: float) -> str:
    """A number in six significant digits and as few characters as that takes."""
    text = f"{value:.{DIGITS}g}"
    if "e" in text:
        digits, exponent = text.split("e")
        return f"{digits}e{int(exponent)}"
    return "0" if text == "-0" else text


def _table(header: list[str], stamps: list[str], columns: np.ndarray) -> str:
    rows = [",".join(header)]
    for stamp, values in zip(stamps, columns.tolist(), strict=True):
        rows.append(",".join([stamp, *map(number, values)]))
    return "\n".join(rows)


def write(history: np.ndarray, covariates: np.ndarray, horizon: int, step_seconds: float) -> Prompt:
    """The question about one series, whole history included.

    Args:
        history: [T], the target.
        covariates: [T + H, K] in their own units, primary first; K may be 0.
        horizon: H, at least 1.
        step_seconds: seconds of one step.

    Raises:
        ValueError: covariates do not reach to the horizon's end.
    """
    context = len(history)
    if horizon < 1 or len(covariates) != context + horizon:
        raise ValueError(
            f"covariates: {len(covariates)} steps; expected history {context} + horizon {horizon}"
        )
    stamps = time_stamps(context + horizon, step_seconds)
    names = [f"covariate_{column + 1}" for column in range(covariates.shape[1])]
    known = ", ".join(names) or "no covariate"
    ahead = stamps[context:]
    instructions = INSTRUCTIONS.format(
        target=TARGET, known=known, horizon=horizon, first=ahead[0], second=ahead[1 % horizon]
    )
    past = np.column_stack([history, covariates[:context]])
    text = "\n".join([
        instructions,
        "history:",
        _table(["time_stamp", TARGET, *names], stamps[:context], past),
        "",
        "plan:",
        _table(["time_stamp", *names], ahead, covariates[context:]),
    ])  # fmt: skip
    return Prompt(text, ahead)

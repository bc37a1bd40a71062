"""What a language model answered: values by time stamp, or a named reason to refuse it."""

import datetime
import re
from collections.abc import Sequence

import numpy as np

from .prompt import TARGET

__all__ = ["AnswerError", "parse"]

_PAIR = re.compile(r"\(\s*['\"`]?([^(),'\"`]+?)['\"`]?\s*,\s*['\"`]?([^(),'\"`]*?)['\"`]?\s*\)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf(inity)?|null|none|n/?a|)", re.IGNORECASE)
_OPENING = rf"<\s*{TARGET}\s*>"
_BLOCK = re.compile(rf"{_OPENING}((?:(?!{_OPENING}).)*?)<\s*/\s*{TARGET}\s*>", re.DOTALL)
_OTHER_TAG = re.compile(r"<([A-Za-z_][\w.-]*)>\s*[\[`(]")
_FENCE = re.compile(r"```[a-z]*", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s,;\[\]]*")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-"})  # minus sign and en dash


class AnswerError(ValueError):
    """An answer that is no forecast.

    The reason is `empty` (no text), `no_tags` (at all), `wrong_variable`, `truncated`, `unreadable`
    (something within the tags that is no pair, such as an ellipsis), `not_finite`,
    `repeated_timestamp`, `wrong_count` or `missing_timestamp`.
    """

    def __init__(self, reason: str, message: str):
        super().__init__(f"{reason}: {message}")
        self.reason = reason


def parse(text: str, time_stamps: Sequence[str], cut_short: bool = False) -> np.ndarray:
    """The forecast of an answer, by time stamp and never by position.

    Text around the tags, code fences, quotes and white space do no harm; of several complete
    pairs of tags the last one counts.

    Args:
        text: all that the model wrote.
        time_stamps: the H time stamps wanted, as `prompt.time_stamps` writes them.
        cut_short: the provider says that the answer hit its length limit.

    Returns:
        float32 [H].

    Raises:
        AnswerError: anything but one finite value for each time stamp; its reason says what.
    """
    return _values(_pairs(_block(text, cut_short)), time_stamps)


def _block(text: str, cut_short: bool) -> str:
    """What stands between the last complete pair of the target's tags."""
    if cut_short:
        raise AnswerError("truncated", f"cut at the provider's length limit: ...{text[-60:]!r}")
    if not text.strip():
        raise AnswerError("empty", "no text")
    blocks = _BLOCK.findall(text)
    if blocks:
        return blocks[-1]
    if re.search(_OPENING, text):
        raise AnswerError("truncated", f"<{TARGET}> is never closed: ...{text[-60:]!r}")
    others = sorted(set(_OTHER_TAG.findall(text)))
    if others:
        raise AnswerError("wrong_variable", f"tags {others}; expected <{TARGET}>")
    raise AnswerError("no_tags", f"{text[:60]!r}...; expected <{TARGET}>")


def _pairs(block: str) -> list[tuple[str, float]]:
    block = _FENCE.sub(" ", block.translate(_MINUS))
    rest = _PAIR.sub(" ", block)
    if not _SEPARATORS.fullmatch(rest):
        raise AnswerError("unreadable", f"{rest.strip(' ,')[:60]!r} is no (time stamp, number)")
    pairs = []
    for stamp, value in _PAIR.findall(block):
        if not _NUMBER.fullmatch(value):
            reason = "not_finite" if _NOT_FINITE.fullmatch(value) else "unreadable"
            raise AnswerError(reason, f"{value!r} at {stamp}; expected a finite number")
        with np.errstate(over="ignore"):
            number = float(np.float32(value))
        if not np.isfinite(number):
            raise AnswerError("not_finite", f"{value} at {stamp} does not fit float32")
        pairs.append((stamp, number))
    return pairs


def _moment(stamp: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(stamp.strip())
    except ValueError:
        raise AnswerError("unreadable", f"{stamp!r} is no ISO time stamp") from None
    return moment if moment.utcoffset() else moment.replace(tzinfo=None)  # Z is no offset


def _values(pairs: list[tuple[str, float]], time_stamps: Sequence[str]) -> np.ndarray:
    wanted = {stamp: _moment(stamp) for stamp in time_stamps}
    found: dict[datetime.datetime, float] = {}
    for stamp, value in pairs:
        moment = wanted.get(stamp) or _moment(stamp)
        if found.setdefault(moment, value) != value:
            raise AnswerError("repeated_timestamp", f"{stamp} has {found[moment]} and {value}")
    if len(found) > len(wanted):
        raise AnswerError("wrong_count", f"{len(found)} time stamps; expected {len(wanted)}")
    missing = [stamp for stamp, moment in wanted.items() if moment not in found]
    if missing:
        raise AnswerError(
            "missing_timestamp", f"{len(missing)} of {len(wanted)}, the first {missing[0]}"
        )
    return np.array([found[moment] for moment in wanted.values()], np.float32)

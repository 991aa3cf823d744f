"""Small drawings beside numbers: a prediction and an interval, a claim and a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpbench.report.page_tables import digits

__all__ = ["HEIGHT", "WIDTH", "Mark", "bound_mark", "claim_mark"]

WIDTH, HEIGHT = 150, 20
MARGIN = 10  # on either side, for arrows
# How much of the axis the tolerance takes: at least a twelfth, at most half of it.
LEAST_SPAN, MOST_SPAN = 2.0, 12.0


@dataclass(frozen=True)
class Mark:
    """A drawing on one horizontal axis, in units of its view box.

    Attributes
    ----------
    words : str
        The same in words.
    band, line : (float, float) or None
        Left and right ends.
    tick, dot : float or None
    left, right : bool
        Whether something lies beyond that end of the axis.
    """

    words: str
    band: tuple[float, float] | None = None
    line: tuple[float, float] | None = None
    tick: float | None = None
    dot: float | None = None
    left: bool = False
    right: bool = False


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value stands; at the end of the axis if it is beyond."""
        inside = min(max(value, self.low), self.high)
        share = (inside - self.low) / (self.high - self.low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    def mark(
        self, words: str, band: Sequence[float], line: Sequence[float], tick: float, dot: float
    ) -> Mark:
        """Draw what is known; NaN is left out and a dot beyond the axis is an arrow."""
        shown = [x for x in (*line, dot) if not math.isnan(x)]
        return Mark(
            words,
            band=(self.at(band[0]), self.at(band[1])),
            line=None if any(map(math.isnan, line)) else (self.at(line[0]), self.at(line[1])),
            tick=self.at(tick) if self.low <= tick <= self.high else None,
            dot=self.at(dot) if self.low <= dot <= self.high else None,
            left=any(x < self.low for x in shown),
            right=any(x > self.high for x in shown),
        )


def claim_mark(
    predicted: float,
    tolerance: float,
    measured: float,
    low: float,
    high: float,
    floor: float | None = None,
) -> Mark | None:
    """A claim: the prediction in the middle, its region grey, the interval, the measurement.

    Parameters
    ----------
    predicted, tolerance, measured, low, high : float
        As in the table of claims.
    floor : float, optional
        For an upper limit: the region begins at `floor` - `tolerance`.

    Returns
    -------
    Mark or None
        None if there is no finite prediction with a tolerance.
    """
    if not (math.isfinite(predicted) and math.isfinite(tolerance) and tolerance > 0):
        return None
    off = [abs(x - predicted) for x in (measured, low, high) if math.isfinite(x)]
    span = min(max(1.15 * max(off, default=0.0), LEAST_SPAN * tolerance), MOST_SPAN * tolerance)
    bottom = (predicted if floor is None else floor) - tolerance
    axis = _Axis(predicted - span, predicted + span)
    if not axis.low < axis.high:  # the tolerance is lost in the digits of the prediction
        return None
    sign = "" if floor is None else "at most "
    words = (
        f"measured {_said(measured)}, 95% interval {_said(low)} to {_said(high)}, "
        f"predicted {sign}{_said(predicted)} plus or minus {tolerance:g}"
    )
    region = (bottom, predicted + tolerance)
    return axis.mark(words, region, (low, high), predicted, measured)


def bound_mark(claimed: float, bound: float) -> Mark | None:
    """An audit: what is claimed, grey from 0 on, and the loss that was shown, a bar from 0 on.

    None if nothing is claimed.
    """
    if math.isnan(claimed) or claimed < 0:
        return None
    known = [x for x in (claimed, bound) if math.isfinite(x)]
    axis = _Axis(0.0, 1.25 * max(known, default=0.0) or 1.0)
    words = f"lower bound {_said(bound)}, claimed {_said(claimed)}"
    return axis.mark(words, (0.0, claimed), (0.0, bound), claimed, bound)


def _said(value: float) -> str:
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return digits(value, trailing=False) or "unknown"

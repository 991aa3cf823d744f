"""Largest probability of naming a direction from a release with little Fisher information.

Notation (name in code). A release is about a direction u, a unit vector in d >= 2 dimensions. u is
uniform on the sphere.

    theta (`angle`)  the release names u if its answer is within this angle of u, theta < pi/2
    J                mean over u of the trace of the release's Fisher information about u, in the
                     d - 1 directions of the sphere
    x0               cos(theta); x = <answer, u>
    w                positive function of x, and q = (ln w)' (`inner`, `outer`)
    L, S             parameters of w inside and outside of the cap x >= x0

Statement. Let w solve (1 - x^2) w'' - (d-1) x w' = -(d-1) L w for x > x0, and = (d-1) S w for
x < x0. Let w be smooth at both poles, and let q at x0 be at least as large outside as inside. Then
the release names u with a probability of at most

    S/(L + S) + J/(4 (d-1) (L + S)).

So it fails with probability beta or more if J <= 4 (d-1) ((1 - beta) L - beta S) (`information`).
For every angle `hidden_directions` contains the best pair (L, S) of a grid.

As d grows at a fixed theta, J/(d-1)^2 tends to (1 - beta)/tan(theta)^2: the best release is silent
with probability beta.

Proof: docs/theory/fingerprinting.md, sections 1 and 2.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Bools, Floats, Ints

__all__ = ["HiddenDirections", "hidden_directions"]

STEPS = 1500  # steps of the angle from 0 to pi/2
FIRST, EVERY = 40, 15  # grid points of the angle that are tried
INNER = np.geomspace(0.005, 8, 200)  # L/d
OUTER = np.geomspace(1e-9, 8, 400)  # S/d
MARGIN = 0.002  # relative; for errors of interpolation and discretisation, see `_is_proved`
FINER = 2  # quotient of the two steps of `_is_proved`


class HiddenDirections(NamedTuple):
    """Amounts of information that do not name a direction, an array entry for each angle.

    Parameters
    ----------
    angle : ndarray
        Largest angle between a direction and an answer that names the direction.
    information : ndarray
        J: a release with at most this trace of the Fisher information fails with probability beta
        or more, on average over directions.
    weight : ndarray
        kappa = 1/((d-1)(L+S)): a term y added to J/4 raises the bound on the probability of
        success by kappa y.
    steepness : ndarray
        Largest norm of the gradient of ln w on the sphere.
    """

    angle: Floats
    information: Floats
    weight: Floats
    steepness: Floats


@cache
def hidden_directions(d: int, beta: float) -> HiddenDirections:
    """Return the largest information at which a release often fails to name a direction.

    Parameters
    ----------
    d : int >= 2
        Number of coordinates of the direction.
    beta : float
        Probability of failure.

    Returns
    -------
    HiddenDirections
        Angles, and the information for each angle.
    """
    angles = np.linspace(0, np.pi, 2 * STEPS + 1)
    inner = _solve(d, INNER * d, angles[: STEPS + 1], 1.0)
    outer = _solve(d, OUTER * d, angles, -1.0)[::-1]  # from the opposite pole, x = -1
    sines = np.sin(angles)[:, None]
    inner_slopes = np.maximum.accumulate(inner * sines[: STEPS + 1], axis=0)
    outer_slopes = np.maximum.accumulate((outer * sines)[::-1], axis=0)[::-1]
    places = np.arange(FIRST, STEPS, EVERY)
    rows = [
        _best_pair(d, beta, inner[i], outer[i], inner_slopes[i], outer_slopes[i]) for i in places
    ]
    inside, outside, steepness = np.array(rows).T
    information = 4 * (d - 1) * ((1 - beta) * inside - beta * outside)
    found = np.flatnonzero(information > 0)
    found = found[_is_proved(d, inside[found], outside[found], places[found])]
    weight = 1 / ((d - 1) * (inside[found] + outside[found]))
    return HiddenDirections(angles[places[found]], information[found], weight, steepness[found])


def _is_proved(d: int, inside: Floats, outside: Floats, places: Ints) -> Bools:
    """Return whether q at x0 is as large outside as inside, for pairs (L, S) and their angles.

    An error of the interpolation between the entries of `OUTER` may exceed `MARGIN`, and so may the
    error of the trapezoidal rule at small angles. The second falls with the square of the step.
    So the quotient of both q is computed with two steps and extrapolated to a step of 0.
    """

    def quotient(finer: int) -> Floats:
        angles, at = np.linspace(0, np.pi, 2 * finer * STEPS + 1), finer * places
        columns = np.arange(len(places))
        inner = _solve(d, inside, angles[: finer * STEPS + 1], 1.0)[at, columns]
        return np.asarray(_solve(d, outside, angles, -1.0)[::-1][at, columns] / inner)

    coarse, fine = quotient(1), quotient(FINER)
    return np.asarray(fine + (fine - coarse) / (FINER**2 - 1) >= 1)


def _best_pair(
    d: int, beta: float, inner: Floats, outer: Floats, inner_slope: Floats, outer_slope: Floats
) -> tuple[float, float, float]:
    """Return L, S and the steepness for the pair (L, S) with the largest J at one angle.

    `inner` and `outer` hold q at x0 for each L and S. For each L, S is the smallest number with a
    large enough q, and a little more to allow for interpolation; q grows with S.
    """
    usable = np.isfinite(inner) & (inner <= outer[-1])
    log_other = np.interp(np.log(np.where(usable, inner, 1.0)), np.log(outer), np.log(OUTER))
    other = np.exp(log_other + MARGIN)
    amount = np.where(usable, (1 - beta) * INNER - beta * other, -np.inf)
    best = int(np.argmax(amount))
    if not usable[best]:
        return 0.0, 0.0, 0.0
    next_slope = outer_slope[min(int(np.searchsorted(OUTER, other[best])), len(OUTER) - 1)]
    steepness = max(float(inner_slope[best]), float(next_slope))
    return float(d * INNER[best]), float(d * other[best]), steepness


def _solve(d: int, start: Floats, angles: Floats, sign: float) -> Floats:
    """Return q for each angle from a pole (rows) and each start value at the pole (columns).

    With y the cosine of the angle from the pole, q solves the Riccati equation

        dq/dy = -sign q^2 + ((d-1) y q - (d-1) q0)/(1 - y^2),   q(1) = q0 = `start`.

    sign is 1 from the pole x = y = 1. It is -1 from the pole x = -y = -1, where q is the derivative
    in x. The trapezoidal rule is implicit, so a step solves a quadratic equation. The first step is
    implicit Euler. NaN follows where q is infinite: there w has a zero.
    """
    q, pull = start.copy(), (d - 1) * start
    cosines, rows = np.cos(angles).tolist(), [start.copy()]  # plain floats: faster, equal bits
    rate = np.zeros_like(q)
    with np.errstate(invalid="ignore"):
        for i in range(1, len(angles) - (angles[-1] > 3)):
            y, share = cosines[i], 0.5 if i > 1 else 1.0
            room = (1 - y) * (1 + y)
            step = share * (cosines[i - 1] - y)
            constant = q + (cosines[i - 1] - y - step) * rate + step * pull / room
            linear = 1 + step * (d - 1) * y / room
            q = 2 * constant / (linear + np.sqrt(linear**2 - 4 * sign * step * constant))
            rate = sign * q**2 + (pull - (d - 1) * y * q) / room
            rows.append(q)
    if angles[-1] > 3:  # the opposite pole, where q may be infinite
        rows.append(rows[-1])
    return np.array(rows)

"""The ledger: mechanisms draw their noise from it and pay its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.privacy import smooth
from dpbench.privacy.account import Account, OverdraftError, check_number
from dpbench.privacy.budgets import Budget, PureDP, Relation
from dpbench.privacy.noise_factor import checked_factor, current_noise_factor
from dpbench.privacy.tape import Step, Tape
from dpbench.seeds import check_generator

__all__ = ["Ledger", "OverdraftError"]

# Smallest sensitivity used for additive noise. A sensitivity that underflows to 0 would add no
# noise on one dataset, while its neighbour gets some.
LEAST_SENSITIVITY = float(np.finfo(float).tiny)

Number = float | Floats  # one number for all trials, or an array that broadcasts to them
# A sensitivity: a number holds for replacing a record, a mapping has a number for each relation.
Stated = Number | Mapping[Relation, Number]
Output = TypeVar("Output", Floats, Ints)


class Ledger(Account):
    """Budget of a release, its spending, and the random stream of all mechanisms.

    A mechanism spends its whole ledger. To run several mechanisms, cut the budget first: `split`
    for steps on the same records, whose costs add up; `parallel` for disjoint sets of records fixed
    by index, whose largest cost counts once. A mechanism that costs more than is left raises
    `OverdraftError`.

    One ledger serves all trials of a batch, each a release of its own. It also serves all groups
    that are rows of a batch (`Sample.groups`), because they are disjoint and pay in parallel. The
    coordinates of vectors (`Sample.columns`) are not disjoint; they need `repeated`.

    Parameters
    ----------
    budget : Budget
        Budget of one release.
    rng : Generator
        Source of all randomness.
    noise_factor : float > 0, optional
        Number that multiplies the noise of every mechanism without changing its cost; by default
        the factor of the enclosing `dpbench.audit.noise_times`, or 1 outside of it. A mechanism
        that pays and draws by itself must multiply its noise by the attribute ``noise_factor``.
    tape : Tape, optional
        Receives every step that pays from this ledger or from a part of it.

    Examples
    --------
    >>> from dpbench.estimators import KarwaVadhanMean
    >>> from dpbench.privacy import PureDP
    >>> from dpbench.samples import DenseSample
    >>> rng = np.random.default_rng(0)
    >>> sample = DenseSample(rng.normal(size=(1, 20_000)))
    >>> ledger = Ledger(PureDP(1.0), rng)
    >>> estimate = KarwaVadhanMean(radius=10).run(sample, ledger)
    >>> print(ledger.receipt())
    pure epsilon 1
      pure epsilon 0.5: fullest bin of a noisy histogram
      pure epsilon 0.5: additive noise, sensitivity 0.00152376
    left: epsilon 0
    """

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        *,
        noise_factor: float | None = None,
        tape: Tape | None = None,
    ) -> None:
        check_generator(rng)
        super().__init__(budget)
        self.rng = rng
        factor = current_noise_factor() if noise_factor is None else checked_factor(noise_factor)
        self.noise_factor = factor
        self.tape = tape

    def _part(self, budget: Budget) -> Self:
        return type(self)(budget, self.rng, noise_factor=self.noise_factor, tape=self.tape)

    def add_noise(
        self, values: Floats, sensitivity: Stated, *, l1: Stated | None = None, draws: int = 1
    ) -> Floats:
        """Release `values` with the additive noise of the budget's notion.

        Parameters
        ----------
        values : ndarray of shape (trials,) or (trials, d)
            Values before noise.
        sensitivity : float, ndarray that broadcasts to `values`, or mapping of these by relation
            Largest l2 distance between the values on neighbouring datasets; without a mapping, on
            datasets that differ by replacing a record. It may depend on releases already paid for.
        l1 : as `sensitivity`, optional
            Largest l1 distance; by default its upper bound ``sqrt(d) * sensitivity``.
        draws : int
            Number of independent noises to average: in the local model each record is released
            with its own noise, and each pays once, in parallel.

        Returns
        -------
        ndarray
            Released values, in the shape of `values`.
        """
        d = values.shape[1] if values.ndim == 2 else 1
        l2 = self._least(sensitivity)
        l1 = float(np.sqrt(d)) * l2 if l1 is None else self._least(l1)
        check_number("draws", draws)
        self.pay("additive noise", l2)
        single = values.ndim == 1 or d == 1
        noise = self.budget.noise(self.rng, values.shape, l1, l2, draws, single=single)
        released = values + self.noise_factor * noise
        return self._on_tape("add_noise", values, released, {"l2": l2, "l1": l1}, draws=draws)

    def add_l2_noise(self, values: Floats, sensitivity: Stated) -> Floats:
        """Release vectors with noise of density proportional to exp(-eps ||z||_2/sensitivity).

        The norm of the noise is Gamma(d, sensitivity/eps) and its direction is uniform. The release
        is eps-DP, because the l2 norm changes by at most `sensitivity` between neighbours (HT10).

        Parameters
        ----------
        values : ndarray of shape (trials, d)
            Vectors before noise.
        sensitivity : float, ndarray that broadcasts to (trials, 1), or mapping of these by relation
            Largest l2 distance between the vectors on neighbouring datasets.
        """
        sensitivity = self._least(sensitivity)
        self.pay("noise in l2", sensitivity)
        trials, d = values.shape
        direction = self.rng.standard_normal((trials, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        radius = self.rng.gamma(d, sensitivity / self.budget.pure_epsilon, (trials, 1))
        released = np.asarray(values + self.noise_factor * radius * direction)
        return self._on_tape("add_l2_noise", values, released, {"l2": sensitivity})

    def add_joint_noise(
        self, values: Floats, sensitivity: Stated, *, base: Literal["box", "ball"]
    ) -> Floats:
        """Release d sums and a count with noise of density prop. to exp(-eps |z|/sensitivity).

        Here |z| is the maximum of |z_(d+1)| and of the max norm (``box``) or the l2 norm (``ball``)
        of z_1, ..., z_d, so that |z| <= 1 is a cylinder over a cube or a ball. A uniform point of
        the cylinder, times a Gamma(d + 2, sensitivity/eps) radius, has that density. The release is
        eps-DP, because |values| changes by at most `sensitivity` between neighbours (HT10).

        Parameters
        ----------
        values : ndarray of shape (trials, d + 1)
            d sums, then the count.
        sensitivity : float, ndarray that broadcasts to (trials, 1), or mapping of these by relation
            Largest distance in that norm between the values on neighbouring datasets.
        base : {'box', 'ball'}
            Norm of the sums.
        """
        sensitivity = self._least(sensitivity)
        self.pay("joint noise of sums and a count", sensitivity)
        trials, d = len(values), values.shape[1] - 1
        point = self.rng.uniform(-1.0, 1.0, values.shape)
        if base == "ball":
            direction = self.rng.standard_normal((trials, d))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            point[:, :d] = direction * self.rng.random((trials, 1)) ** (1 / d)
        radius = self.rng.gamma(d + 2, sensitivity / self.budget.pure_epsilon, (trials, 1))
        released = np.asarray(values + self.noise_factor * radius * point)
        return self._on_tape("add_joint_noise", values, released, {base: sensitivity})

    def add_smooth_noise(self, values: Floats, sensitivity: Stated, t: float) -> Floats:
        """Release numbers with noise proportional to a t-smooth sensitivity (NRS07, BS19).

        `dpbench.privacy.smooth` defines t-smooth sensitivity and the noise.

        Parameters
        ----------
        values : ndarray of shape (trials,)
            Numbers before noise.
        sensitivity : float, ndarray of shape (trials,), or mapping of these by relation
            A t-smooth sensitivity; it may depend on the records, so the receipt does not show it.
        t : float
            Smoothness, above 0.

        Raises
        ------
        ValueError
            If the budget does not pay for t.
        """
        sensitivity = self._least(sensitivity)
        noise = smooth.draw(self.rng, values.shape, self.budget, t)
        self.pay(f"noise for a {t:.6g}-smooth sensitivity")
        return self.record_output(values + self.noise_factor * sensitivity * noise)

    def add_geometric_noise(self, counts: Floats, sensitivity: Stated) -> Floats:
        """Release counts with geometric noise Z, P(Z = z) prop. to exp(-eps |z|/sensitivity).

        The release is eps-DP (GRS09). Z is a difference of two geometric variables.

        Parameters
        ----------
        counts : ndarray of shape (trials,) or (trials, d)
            Whole numbers, because the noise would not hide a fractional part.
        sensitivity : float > 0, or mapping of these by relation
            Largest l1 distance between the counts on neighbouring datasets.

        Raises
        ------
        ValueError
            If a count is not a whole number or the sensitivity is 0.
        """
        sensitivity = self.sensitivity_for_relation(sensitivity)
        if np.any(sensitivity == 0) or not np.array_equal(counts, np.round(counts)):
            raise ValueError("geometric noise is for whole numbers of a sensitivity above 0")
        self.pay("geometric noise", sensitivity)
        success = -np.expm1(-self.budget.pure_epsilon / sensitivity)
        first, second = self.rng.geometric(success, (2, *counts.shape))
        noise = np.rint(self.noise_factor * (first - second))
        released = np.asarray(counts + noise)
        return self._on_tape("add_geometric_noise", counts, released, {"l2": sensitivity})

    def exponential(
        self, scores: Floats, sensitivity: Stated, log_weights: Floats | float = 0.0
    ) -> Ints:
        """Choose an index with probability proportional to weight exp(eps score/(2 sensitivity)).

        The exponential mechanism is eps-DP (McSherry and Talwar 2007); it is sampled with Gumbel
        noise. Notions other than pure DP may pay for a larger eps than with other mechanisms, see
        `Budget.exponential_epsilon`.

        Parameters
        ----------
        scores : ndarray of shape (trials, m)
            Scores of the m choices.
        sensitivity : float > 0, or mapping of these by relation
            Largest change of any score between neighbouring datasets.
        log_weights : ndarray of shape (m,) or (trials, m), optional
            Logarithms of a base measure that must not depend on single records; or of the lengths
            of the pieces into which the records cut a range (the continuous mechanism).

        Returns
        -------
        ndarray of int, shape (trials,)
        """
        sensitivity = self.sensitivity_for_relation(sensitivity)
        if np.any(sensitivity == 0):
            raise ValueError("scores of sensitivity 0 do not depend on the data")
        self.pay("exponential mechanism", sensitivity)
        spread = 2 * self.noise_factor * sensitivity
        exponents = self.budget.exponential_epsilon * scores / spread + log_weights
        chosen = np.asarray(np.argmax(exponents + self.rng.gumbel(size=scores.shape), axis=1))
        return self._on_tape("exponential", scores, chosen, {"max": sensitivity}, log_weights)

    def above_threshold(self, counts: Floats, sensitivity: Stated, threshold: float) -> Ints:
        """Choose the first count that exceeds a threshold, by the sparse vector technique.

        Each count and the threshold get independent Laplace noise of scale 2 sensitivity/epsilon
        (Dwork and Roth 2014, section 3.6). This is epsilon-DP if a neighbouring dataset moves all
        counts in one direction (Lyu, Su and Li 2017); other counts need twice the noise on counts.

        Proof, for sensitivity 1 and neighbours with counts q_j <= q'_j <= q_j + 1. Condition on all
        noises Z_j of the counts before the chosen one.

        1. From q to q': compare the noisy thresholds t for q and t + 1 for q'; their densities are
           within a factor e^(epsilon/2). If q_j + Z_j < t, then q'_j + Z_j < t + 1, so passing over
           a count is no less likely under q'. Choosing a count is as likely up to a factor
           e^(epsilon/2), because t - q_j and t + 1 - q'_j differ by at most 1.
        2. From q' to q: compare equal thresholds t. Passing over the smaller count is no less
           likely, and choosing it is as likely up to a factor e^(epsilon/2).

        Parameters
        ----------
        counts : ndarray of shape (trials, m)
            A neighbouring dataset raises all counts by at most `sensitivity`, or lowers all.
        sensitivity : float > 0, or mapping of these by relation
            Largest change of a count.
        threshold : float
            Public threshold.

        Returns
        -------
        ndarray of int, shape (trials,)
            Index of the chosen count; the last if no earlier one exceeds the threshold.
        """
        sensitivity = self.sensitivity_for_relation(sensitivity)
        self.pay("sparse vector technique", sensitivity)
        half = PureDP(self.budget.pure_epsilon / 2)
        first, second = (
            self.noise_factor * half.noise(self.rng, shape, sensitivity, sensitivity)
            for shape in ((len(counts), 1), counts.shape)
        )
        passed = counts + second >= threshold + first
        passed[:, -1] = True
        chosen = np.asarray(passed.argmax(axis=1))
        return self._on_tape("above_threshold", counts, chosen, {"max": sensitivity})

    def pay(
        self, mechanism: str = "a mechanism of its own", sensitivity: Number | None = None
    ) -> None:
        super().pay(mechanism, sensitivity)
        if self.tape is not None:
            self.tape.add(Step("pay"))

    def allow_failure(self, delta: float) -> None:
        super().allow_failure(delta)
        self.record_output(np.zeros(0))  # an empty release, equal on all datasets

    def pay_for_custom_mechanism(self, mechanism: str) -> Budget:
        """Pay for a mechanism with its own randomness, and return the budget for it to use.

        With noise factor f the returned budget has f times the noise of the paid budget: epsilon/f,
        mu/f, rho/f^2 and an unchanged delta.
        """
        self.pay(mechanism)
        if self.noise_factor == 1:
            return self.budget
        budget: Any = self.budget
        powers = {"epsilon": 1, "mu": 1, "rho": 2, "delta": 0}
        amounts = {
            name: amount / self.noise_factor ** powers[name]
            for name, amount in budget.named_amounts.items()
        }
        # Leave out `noise_by`, because some of its values refuse so large an epsilon.
        return cast("Budget", type(budget)(**amounts, neighbours=budget.neighbours))

    def record_output(self, found: Floats) -> Floats:
        """Record the output `found` of the mechanism just paid for; a replay returns the tape's."""
        return found if self.tape is None else self.tape.record_output(found, self.rng)

    def _on_tape(
        self,
        mechanism: str,
        values: Floats,
        released: Output,
        sensitivity: Mapping[str, Number],
        weights: Floats | float = 0.0,
        *,
        draws: int = 1,
    ) -> Output:
        """Record a step on the tape; return `released`, or in a replay the earlier output."""
        if self.tape is not None:
            step = Step(mechanism, values.copy(), sensitivity, released, weights, draws)
            released = self.tape.add(step, self.rng)
        return released

    def sensitivity_for_relation(self, sensitivity: Stated) -> Number:
        """Return the sensitivity for the budget's neighbours.

        Raise ValueError if none is stated for them, or if it is not a finite number >= 0.
        """
        given = sensitivity if isinstance(sensitivity, Mapping) else {"replace": sensitivity}
        relation = self.budget.neighbours
        if relation not in given:
            raise ValueError(f"no sensitivity is stated for neighbours: {relation}")
        found = given[relation]
        if not ((np.asarray(found) >= 0) & np.isfinite(found)).all():
            raise ValueError(f"sensitivity {found} is not a finite number >= 0")
        return found

    def _least(self, sensitivity: Stated) -> Number:
        """Return max(stated sensitivity, `LEAST_SENSITIVITY`).

        A larger bound on the sensitivity is still valid, and so is a larger smooth bound.
        """
        return np.maximum(self.sensitivity_for_relation(sensitivity), LEAST_SENSITIVITY)

"""Ledger, which holds the budget of one release and draws the noise of its mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.errors import check_instance
from dpbench.privacy import hourglass, smooth
from dpbench.privacy.account import Account, OverdraftError, check_number
from dpbench.privacy.budgets import Budget, PureDP, Relation
from dpbench.privacy.noise_factor import check_noise_factor, current_noise_factor
from dpbench.privacy.tape import Step, Tape
from dpbench.seeds import check_generator

__all__ = ["Ledger", "OverdraftError", "ThresholdNoise"]

# Smallest sensitivity of additive noise. Without it, a sensitivity that underflows to 0 would add
# no noise to one dataset, while a neighbouring dataset gets noise.
MIN_SENSITIVITY = float(np.finfo(float).tiny)

Number = float | Floats  # one number for all trials, or an array that broadcasts to them
# A sensitivity: a number if records are replaced, or a mapping with a number for each relation.
Stated = Number | Mapping[Relation, Number]
Output = TypeVar("Output", Floats, Ints)
ThresholdNoise = Literal["laplace", "exponential"]  # noise of the sparse vector technique


class Ledger(Account):
    """Budget of a release, its spending, and the random stream of all mechanisms.

    A mechanism spends its whole ledger. To run several mechanisms, divide the budget first. Use
    `split` for steps on the same records, because their costs add up. Use `parallel` for disjoint
    sets of records fixed by index; only the largest of their costs counts. A mechanism that costs
    more than is left raises `OverdraftError`.

    One ledger serves all trials of a batch, because each trial is a separate release. It also
    serves all groups that are rows of a batch (`Sample.groups`), because groups are disjoint and
    pay in parallel. The coordinates of vectors (`Sample.columns`) are not disjoint, so they need
    `repeated`.

    Parameters
    ----------
    budget : Budget
        Budget of one release.
    rng : Generator
        Source of all randomness.
    noise_factor : float > 0, optional
        Number that multiplies the noise of every mechanism without changing its cost; by default
        the factor of the enclosing `dpbench.audit.noise_times` block, or 1 outside of such blocks.
        Code that pays by `pay` and draws its own noise must multiply the noise by the attribute
        ``noise_factor``.
    tape : Tape, optional
        Tape that records every mechanism that pays from this ledger or from a part of it. It
        records sensitivities for all `steps` between neighbours.

    Examples
    --------
    >>> from dpbench.estimators import KarwaVadhanMean
    >>> from dpbench.privacy import PureDP
    >>> from dpbench.samples import DenseSample
    >>> rng = np.random.default_rng(0)
    >>> sample = DenseSample(rng.normal(size=(1, 20_000)))
    >>> ledger = Ledger(PureDP(1.0), rng)
    >>> estimate = KarwaVadhanMean(radius=10, sigma=1).run(sample, ledger)
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
        check_instance("budget", budget, Budget, "a budget", "PureDP(1.0)")
        check_generator(rng)
        super().__init__(budget)
        self.rng = rng
        factor = (
            current_noise_factor() if noise_factor is None else check_noise_factor(noise_factor)
        )
        self.noise_factor = factor
        self.tape = tape

    def _new(self, budget: Budget) -> Self:
        return type(self)(budget, self.rng, noise_factor=self.noise_factor, tape=self.tape)

    def add_noise(
        self, values: Floats, sensitivity: Stated, *, l1: Stated | None = None, draws: int = 1
    ) -> Floats:
        """Release values with the additive noise of the budget.

        Parameters
        ----------
        values : ndarray of shape (trials,) or (trials, d)
            Values before noise.
        sensitivity : float, ndarray that broadcasts to `values`, or mapping of these
            Largest l2 distance between the values on neighbouring datasets. A mapping has a key for
            each relation of neighbours, ``replace`` or ``add_remove``. A number or an array is the
            sensitivity under ``replace``. It may depend on releases already paid for.
        l1 : float, ndarray that broadcasts to `values`, or mapping of these, optional
            Largest l1 distance between the values on neighbouring datasets; by default its upper
            bound ``sqrt(d) * sensitivity``.
        draws : int
            Number of independent noises to average, by default 1. In the local model, for example,
            each record is released with its own noise, and all records pay in parallel.

        Returns
        -------
        ndarray
            Released values, in the shape of `values`.
        """
        _check_axes("add_noise", values, 1, 2)
        d = values.shape[1] if values.ndim == 2 else 1
        l2 = self._floor_sensitivity(sensitivity)
        l1 = float(np.sqrt(d)) * l2 if l1 is None else self._floor_sensitivity(l1)
        check_number("draws", draws)
        self.pay("additive noise", l2)
        single = values.ndim == 1 or d == 1
        noise = self.budget.noise(self.rng, values.shape, l1, l2, draws, single=single)
        released = values + self.noise_factor * noise
        return self._record_step("add_noise", values, released, {"l2": l2, "l1": l1}, draws=draws)

    def add_l2_noise(self, values: Floats, sensitivity: Stated) -> Floats:
        """Release vectors with noise of density proportional to exp(-eps ||z||_2/sensitivity).

        Here z is the noise of a vector of d coordinates, and eps is the epsilon of pure DP that the
        budget pays for. The l2 norm of z is Gamma(d, sensitivity/eps) and its direction is uniform.
        The release is eps-DP, because the vectors of neighbours differ by at most `sensitivity` in
        l2 norm (HT10).

        Parameters
        ----------
        values : ndarray of shape (trials, d)
            Vectors before noise.
        sensitivity : float, ndarray that broadcasts to (trials, 1), or mapping of these
            Largest l2 distance between the vectors on neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.

        Returns
        -------
        ndarray of shape (trials, d)
            Released vectors.
        """
        _check_axes("add_l2_noise", values, 2)
        sensitivity = self._floor_sensitivity(sensitivity)
        self.pay("noise in l2", sensitivity)
        trials, d = values.shape
        direction = self.rng.standard_normal((trials, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        radius = self.rng.gamma(d, sensitivity / self.budget.pure_epsilon, (trials, 1))
        released = np.asarray(values + self.noise_factor * radius * direction)
        return self._record_step("add_l2_noise", values, released, {"l2": sensitivity})

    def add_joint_noise(
        self, values: Floats, sensitivity: Stated, *, base: Literal["box", "ball"]
    ) -> Floats:
        """Release d sums and a count with joint noise, or the coordinates of a vector.

        The noise is z = (z_1, ..., z_d) for the sums and z_(d+1) for the count. (With ``box`` all
        coordinates play the same role, so the values may be any vector.) Its density is
        proportional to exp(-eps |z|/sensitivity), where eps is the epsilon of pure DP that the
        budget pays for. The norm |z| is the larger of two numbers: |z_(d+1)|, and the max norm
        (``box``) or l2 norm (``ball``) of (z_1, ..., z_d). The release is eps-DP, because the
        values of neighbours differ by at most `sensitivity` in this norm (HT10).

        The set |z| <= 1 is a cylinder over a cube or a ball. A uniform point of the cylinder, times
        a Gamma(d + 2, sensitivity/eps) radius, has the density of z.

        Parameters
        ----------
        values : ndarray of shape (trials, d + 1)
            d sums, then the count.
        sensitivity : float, ndarray that broadcasts to (trials, 1), or mapping of these
            Largest distance between the values on neighbouring datasets, in the norm |z|.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.
        base : {'box', 'ball'}
            Norm of (z_1, ..., z_d): the max norm or the l2 norm.

        Returns
        -------
        ndarray of shape (trials, d + 1)
            Released sums and count.
        """
        _check_axes("add_joint_noise", values, 2)
        sensitivity = self._floor_sensitivity(sensitivity)
        self.pay("noise of a cube" if base == "box" else "noise of a cylinder", sensitivity)
        trials, d = len(values), values.shape[1] - 1
        point = self.rng.uniform(-1.0, 1.0, values.shape)
        if base == "ball":
            direction = self.rng.standard_normal((trials, d))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            point[:, :d] = direction * self.rng.random((trials, 1)) ** (1 / d)
        radius = self.rng.gamma(d + 2, sensitivity / self.budget.pure_epsilon, (trials, 1))
        released = np.asarray(values + self.noise_factor * radius * point)
        return self._record_step("add_joint_noise", values, released, {base: sensitivity})

    def add_hourglass_noise(self, values: Floats) -> Floats:
        """Release the sum and the number of records in [-1, 1] with hourglass noise (KSW23).

        The noise of the number is an integer, and the noise of the sum depends on it. The release
        is eps-DP if neighbours add or remove a record (`dpbench.privacy.hourglass`). Here eps is
        the epsilon of pure DP that the budget pays for.

        Parameters
        ----------
        values : ndarray of shape (trials, 2)
            Sum of the records, then their number. A record moves the number by exactly 1.

        Returns
        -------
        ndarray of shape (trials, 2)
            Released sum and number.

        Raises
        ------
        ValueError
            If neighbours replace a record, or if a number is not a whole number.
        """
        _check_axes("add_hourglass_noise", values, 2)
        sensitivity = self.sensitivity_for_relation({"add_remove": 1.0})
        if values.shape[1] != 2:
            raise ValueError("hourglass noise is for a sum and a number of records")
        if not np.array_equal(values[:, 1], np.round(values[:, 1])):
            raise ValueError("hourglass noise is for whole numbers of records")
        self.pay("hourglass noise of a sum and a count", sensitivity)
        noise = self.noise_factor * hourglass.draw(self.rng, len(values), self.budget.pure_epsilon)
        noise[:, 1] = np.rint(noise[:, 1])
        released = np.asarray(values + noise)
        stated: Mapping[str, Number] = {"hourglass": sensitivity}
        return self._record_step("add_hourglass_noise", values, released, stated)

    def add_smooth_noise(
        self,
        values: Floats,
        sensitivity: Stated,
        t: float,
        *,
        noise: smooth.SmoothNoise = "by_budget",
    ) -> Floats:
        """Release numbers with noise proportional to a t-smooth sensitivity (NRS07, BS19).

        Let f(x) be the number on dataset x. S is a t-smooth sensitivity of f if, for neighbouring
        datasets x and x', |f(x) - f(x')| <= S(x) and S(x) <= e^t S(x').

        Parameters
        ----------
        values : ndarray of shape (trials,)
            Numbers before noise.
        sensitivity : float, ndarray of shape (trials,), or mapping of these
            A t-smooth sensitivity. It may depend on the records, so the receipt does not show it.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.
        t : float
            Smoothness, above 0.
        noise : {'by_budget', 'polyplace'}
            ``by_budget``: Laplace log-normal noise under zCDP, else Student's t. ``polyplace``:
            PolyPlace noise (HT25) for the largest epsilon of pure DP that the budget allows.

        Returns
        -------
        ndarray of shape (trials,)
            Released numbers.

        Raises
        ------
        ValueError
            If t is too large for the budget, or if `values` are vectors.
        """
        _check_axes("add_smooth_noise", values, 1)
        sensitivity = self._floor_sensitivity(sensitivity)
        drawn = smooth.draw(self.rng, values.shape, self.budget, t, noise)
        self.pay(f"noise for a {t:.6g}-smooth sensitivity")
        return self.record_output(values + self.noise_factor * sensitivity * drawn)

    def add_geometric_noise(self, counts: Floats, sensitivity: Stated) -> Floats:
        """Release counts with two-sided geometric noise, the difference of two geometric variables.

        The noise is z with probability proportional to exp(-eps |z|/sensitivity). Here eps is the
        epsilon of pure DP that the budget pays for. The release is eps-DP (GRS09).

        Parameters
        ----------
        counts : ndarray of shape (trials,) or (trials, d)
            Whole numbers, because the noise would not hide a fractional part.
        sensitivity : float > 0, or mapping of these
            Largest l1 distance between the counts on neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.

        Returns
        -------
        ndarray
            Released counts, in the shape of `counts`.

        Raises
        ------
        ValueError
            If a count is not a whole number or the sensitivity is 0.
        """
        _check_axes("add_geometric_noise", counts, 1, 2)
        sensitivity = self.sensitivity_for_relation(sensitivity)
        if np.any(sensitivity == 0) or not np.array_equal(counts, np.round(counts)):
            raise ValueError("geometric noise is for whole numbers of a sensitivity above 0")
        self.pay("geometric noise", sensitivity)
        success = -np.expm1(-self.budget.pure_epsilon / sensitivity)
        first, second = self.rng.geometric(success, (2, *counts.shape))
        noise = np.rint(self.noise_factor * (first - second))
        released = np.asarray(counts + noise)
        return self._record_step("add_geometric_noise", counts, released, {"l1": sensitivity})

    def add_canonical_noise(self, counts: Floats, sensitivity: Stated) -> Floats:
        """Release numbers with the canonical noise of the budget (AV23).

        The noise is Tulap noise under pure and (epsilon, delta)-DP, and Gaussian noise under zCDP
        and Gaussian DP; `dpbench.privacy.canonical` has the proof.

        Parameters
        ----------
        counts : ndarray of shape (trials,)
            Numbers before noise; they need not be whole.
        sensitivity : float, ndarray of shape (trials,), or mapping of these
            Largest distance between the numbers on neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.

        Returns
        -------
        ndarray of shape (trials,)
            Released numbers.

        Raises
        ------
        ValueError
            If `counts` are vectors, for which the noise is not private at this cost.
        """
        _check_axes("add_canonical_noise", counts, 1)
        sensitivity = self._floor_sensitivity(sensitivity)
        self.pay("canonical noise", sensitivity)
        noise = self.budget.canonical_noise.draw(self.rng, counts.shape)
        released = np.asarray(counts + self.noise_factor * sensitivity * noise)
        return self._record_step("add_canonical_noise", counts, released, {"l2": sensitivity})

    def exponential(
        self, scores: Floats, sensitivity: Stated, log_weights: Floats | float = 0.0
    ) -> Ints:
        """Choose an index by the exponential mechanism, which favours large scores.

        The probability of an index is proportional to weight * exp(eps * score/(2 sensitivity)).
        The mechanism is eps-DP (McSherry and Talwar 2007), and sampled with Gumbel noise. Here eps
        is the epsilon that the budget pays for. Under notions other than pure DP, it may be larger
        than for other mechanisms, see `Budget.exponential_epsilon`.

        Parameters
        ----------
        scores : ndarray of shape (trials, m)
            Scores of the m choices.
        sensitivity : float > 0, or mapping of these
            Largest change of any score between neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.
        log_weights : ndarray of shape (m,) or (trials, m), optional
            Logarithms of the weights, by default 0. Weights are either a base measure that does not
            depend on single records, or lengths of the pieces into which the records cut a range
            (the continuous mechanism).

        Returns
        -------
        ndarray of int, shape (trials,)
            Chosen indices.

        Raises
        ------
        ValueError
            If the sensitivity is 0.
        """
        _check_axes("exponential", scores, 2)
        sensitivity = self.sensitivity_for_relation(sensitivity)
        if np.any(sensitivity == 0):
            raise ValueError("scores of sensitivity 0 do not depend on the data")
        self.pay("exponential mechanism", sensitivity)
        spread = 2 * self.noise_factor * sensitivity
        exponents = self.budget.exponential_epsilon * scores / spread + log_weights
        chosen = np.asarray(np.argmax(exponents + self.rng.gumbel(size=scores.shape), axis=1))
        return self._record_step("exponential", scores, chosen, {"max": sensitivity}, log_weights)

    def above_threshold(
        self,
        counts: Floats,
        sensitivity: Stated,
        threshold: float,
        *,
        noise: ThresholdNoise = "laplace",
    ) -> Ints:
        """Choose the first count that exceeds a threshold, by the sparse vector technique.

        Each count and the threshold get independent Laplace noise of scale 2 sensitivity/epsilon
        (Dwork and Roth 2014, section 3.6), or exponential noise of this scale (D23). This is
        epsilon-DP if a neighbouring dataset moves all counts in one direction (Lyu, Su and Li
        2017). Otherwise counts need twice the noise. Exponential noise is positive, and has half
        of the variance of Laplace noise. Its mean cancels between counts and threshold.

        Proof for sensitivity 1. Let two neighbours have counts q_j and q'_j with
        q_j <= q'_j <= q_j + 1. Let Z_j be the noise of count j. Condition on Z_j for all counts
        before the chosen count. These counts are rejected, because they are below the threshold.

        1. P(choice | q) <= e^epsilon P(choice | q'). Compare the noisy threshold t for q with the
           noisy threshold t + 1 for q'. The density of t is at most e^(epsilon/2) times the density
           of t + 1. If q_j + Z_j < t, then q'_j + Z_j < t + 1. So a count that is rejected
           under q is rejected under q'. The numbers t - q_j and t + 1 - q'_j, which the noise of
           the chosen count must exceed, differ by at most 1. This costs a factor of at most
           e^(epsilon/2).
        2. P(choice | q') <= e^epsilon P(choice | q). Compare equal thresholds t. A count that is
           rejected under q' is rejected under q, because q_j <= q'_j. The numbers t - q_j and
           t - q'_j differ by at most 1, which costs a factor of at most e^(epsilon/2).

        Both kinds of noise have the two properties that the proof uses: a density f with
        f(z) <= e^(epsilon/2) f(z + 1), and P(Z >= z) <= e^(epsilon/2) P(Z >= z + 1).

        Parameters
        ----------
        counts : ndarray of shape (trials, m)
            Counts, which a neighbouring dataset moves in one direction, by at most `sensitivity`.
        sensitivity : float > 0, or mapping of these
            Largest change of a count between neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.
        threshold : float
            Public threshold.
        noise : {'laplace', 'exponential'}
            Noise of the counts and of the threshold.

        Returns
        -------
        ndarray of int, shape (trials,)
            Index of the chosen count; the last index if no earlier count exceeds the threshold.
        """
        _check_axes("above_threshold", counts, 2)
        sensitivity = self.sensitivity_for_relation(sensitivity)
        self.pay("sparse vector technique", sensitivity)
        scale = 2 * sensitivity / self.budget.pure_epsilon
        chosen = self._find_first_above(counts, threshold, scale, noise)
        stated = {"max": sensitivity}
        return self._record_step("above_threshold", counts, chosen, stated, 0.0, threshold, noise)

    def above_opposite_thresholds(
        self,
        counts: tuple[Floats, Floats],
        sensitivity: Stated,
        threshold: float,
        *,
        noise: ThresholdNoise = "laplace",
    ) -> Ints:
        """Run the sparse vector technique on two lists of counts that move in opposite directions.

        If a neighbouring dataset raises counts of the first list, it does not raise any count of
        the second list, and the other way round. An example are the numbers of records below and
        above the points of a grid: a record that moves up lowers the former and raises the latter.
        In each list the first count is chosen that exceeds the threshold, as in `above_threshold`.
        All noises have scale 3 sensitivity/epsilon. Two calls of `above_threshold`, with half of
        epsilon each, would have scale 4 sensitivity/epsilon.

        Proof for sensitivity 1. Let e = epsilon/3. By the proof in `above_threshold`, with e in
        place of epsilon/2, a choice from the list with the smaller counts q is at most e^(2e) times
        as probable as from the list with the larger counts q'. In the other direction the factor
        is e^e, because the thresholds are equal there. Of two neighbours, each has the smaller
        counts in at most one of the two lists. The noises of the lists are independent. So the
        factor for both choices is at most e^(2e) e^e = e^epsilon.

        Parameters
        ----------
        counts : tuple of two ndarray of shape (trials, m)
            The lists. A neighbouring dataset moves each list in one direction, the two lists in
            opposite directions, and every count by at most `sensitivity`.
        sensitivity : float > 0, or mapping of these
            Largest change of a count between neighbouring datasets.
            A mapping has a key for each relation of neighbours, ``replace`` or ``add_remove``.
        threshold : float
            Public threshold of both lists.
        noise : {'laplace', 'exponential'}
            Noise of the counts and of the thresholds.

        Returns
        -------
        ndarray of int, shape (trials, 2)
            Index of the chosen count of each list; the last index if no earlier count exceeds the
            threshold.
        """
        for part in counts:
            _check_axes("above_opposite_thresholds", part, 2)
        sensitivity = self.sensitivity_for_relation(sensitivity)
        self.pay("sparse vector technique on two opposite lists", sensitivity)
        scale = 3 * sensitivity / self.budget.pure_epsilon
        chosen = [self._find_first_above(part, threshold, scale, noise) for part in counts]
        both, indices = np.concatenate(counts, axis=1), np.stack(chosen, axis=1)
        stated = {"max": sensitivity}
        return self._record_step("above_threshold", both, indices, stated, 0.0, threshold, noise)

    def _find_first_above(
        self, counts: Floats, threshold: float, scale: Number, noise: ThresholdNoise
    ) -> Ints:
        """Return the index of the first noisy count above a noisy threshold, (trials,).

        `counts` has shape (trials, counts of a trial). Each trial has one noisy threshold. The
        index is the last if no earlier count is above. All noises have the given scale.
        """
        shapes = (len(counts), 1), counts.shape
        if noise == "laplace":
            drawn = [PureDP(1.0).noise(self.rng, shape, scale, scale) for shape in shapes]
        else:
            drawn = [scale * self.rng.standard_exponential(shape) for shape in shapes]
        first, second = (self.noise_factor * part for part in drawn)
        passed = counts + second >= threshold + first
        passed[:, -1] = True
        return np.asarray(passed.argmax(axis=1))

    def pay(
        self, mechanism: str = "a mechanism of its own", sensitivity: Number | None = None
    ) -> None:
        super().pay(mechanism, sensitivity)
        if self.tape is not None:
            self.tape.add(self._step("pay", mechanism))

    def allow_failure(self, delta: float) -> None:
        super().allow_failure(delta)
        self.record_output(np.zeros(0))  # an empty release, equal on all datasets

    def pay_for_custom_mechanism(self, mechanism: str) -> Budget:
        """Pay for a mechanism with its own randomness, and return the budget that it must use.

        The returned budget is the budget of the ledger, unless a noise factor f multiplies all
        noise to test an audit. With a factor f, the method divides epsilon and mu by f, and rho by
        f^2, so that the mechanism adds f times the noise. The method does not change delta.
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

    def record_output(self, output: Floats) -> Floats:
        """Record on the tape the output of the mechanism just paid for; return the output to use.

        The tape lists a run's calls of mechanisms, and may repeat the outputs of an earlier run.
        If it repeats an output, the earlier output is returned, else `output`.
        """
        return output if self.tape is None else self.tape.record_output(output, self.rng)

    def _record_step(
        self,
        mechanism: str,
        values: Floats,
        released: Output,
        sensitivity: Mapping[str, Number],
        weights: Floats | float = 0.0,
        *settings: object,
        draws: int = 1,
    ) -> Output:
        """Record on the tape the inputs and the output of a mechanism; return the output to use.

        The tape lists a run's calls of mechanisms, and may repeat the outputs of an earlier run.
        If it repeats an output, the earlier output is returned, else `released`. The law of the
        noise depends on `settings`.
        """
        if self.tape is not None:
            step = self._step(mechanism, draws, *settings)
            step.values, step.released, step.weights = values.copy(), released, weights
            step.sensitivity = {norm: self.steps * size for norm, size in sensitivity.items()}
            step.draws = draws
            released = self.tape.add(step, self.rng)
        return released

    def _step(self, mechanism: str, *settings: object) -> Step:
        """Return a step of the tape that says who pays, and for what law of noise."""
        rows, laws = self.times * self.steps, (self.budget, *settings)
        return Step(mechanism, settings=laws, rows=rows, place=self.place)

    def sensitivity_for_relation(self, sensitivity: Stated) -> Number:
        """Return the stated sensitivity for the budget's relation of neighbours.

        The relation is ``replace`` or ``add_remove``. Raise ValueError if no sensitivity is stated
        for it, or if the sensitivity is not a finite number >= 0.
        """
        stated = sensitivity if isinstance(sensitivity, Mapping) else {"replace": sensitivity}
        relation = self.budget.neighbours
        if relation not in stated:
            raise ValueError(f"no sensitivity is stated for neighbours: {relation}")
        value = stated[relation]
        if not ((np.asarray(value) >= 0) & np.isfinite(value)).all():
            raise ValueError(f"sensitivity {value} is not a finite number >= 0")
        return value

    def _floor_sensitivity(self, sensitivity: Stated) -> Number:
        """Return the stated sensitivity, but at least the smallest normal double `MIN_SENSITIVITY`.

        A sensitivity that underflows to 0 would add no noise. A larger bound is valid, also for a
        smooth sensitivity.
        """
        return np.maximum(self.sensitivity_for_relation(sensitivity), MIN_SENSITIVITY)


def _check_axes(mechanism: str, values: Floats, *axes: int) -> None:
    """Raise ValueError unless values have one of the numbers of axes that a mechanism takes.

    One axis is for numbers, (trials,), and two are for vectors, (trials, d).
    """
    if values.ndim not in axes:
        kinds = " or ".join(("numbers (trials,)", "vectors (trials, d)")[axis - 1] for axis in axes)
        raise ValueError(
            f"{mechanism}: values of shape {values.shape}: expected {kinds}; coordinates may be "
            "rows that Ledger.repeated pays for"
        )

"""The ledger: every mechanism draws its noise here, and pays for it here."""

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

# Of additive noise. What underflows to 0 would have none, where a neighbour's has some.
LEAST_SENSITIVITY = float(np.finfo(float).tiny)

Number = float | Floats  # of all trials or of each
# A sensitivity: a number is about replacing a record; under add_remove it is given by relation.
Stated = Number | Mapping[Relation, Number]
Output = TypeVar("Output", Floats, Ints)


class Ledger(Account):
    """Hold a budget, its spending, and the random stream of noise and other chance.

    A mechanism spends all of its ledger. To run several, cut the budget first: `split` for steps
    that see the same records (their costs add up), `parallel` for disjoint sets of records fixed
    by index (the largest cost counts once). One ledger serves all trials of a batch, each a
    release of its own, and all groups that are rows of one batch (`Sample.groups`): they are
    disjoint, and pay in parallel. The coordinates of vectors (`Sample.columns`) are not: for them
    there is `repeated`. What costs more than is left raises `OverdraftError`.

    Parameters
    ----------
    budget : Budget
    rng : Generator
    noise_factor : float > 0, optional
        Multiply the noise of every mechanism by this number, while the costs stay as they are; by
        default `dpbench.audit.noise_times` decides, and it is 1 outside of it. A mechanism that
        pays and draws by itself multiplies its noise by the attribute ``noise_factor``.
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
        values : (trials,) or (trials, d) array
        sensitivity : float or array that broadcasts to `values`, or these by relation
            Largest l2 distance between the values on neighbouring datasets; what is not given by
            relation is about replacing a record. It may differ between trials as far as it rests on
            releases already paid for.
        l1 : the same, optional
            The same in l1; by default ``sqrt(d) * sensitivity``, which bounds it.
        draws : int
            Average this many independent noises: one for each record that is released by
            itself, in the local model. Each record pays once, in parallel.
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
        """Release (trials, d) vectors with noise of density prop. to exp(-eps ||z||/sensitivity).

        The radius is Gamma(d, sensitivity/eps) and the direction uniform: pure eps-DP, since ||z||
        changes by at most `sensitivity`, in l2, between neighbours (Hardt and Talwar 2010).
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
        """Release sums and a count with noise of density prop. to exp(-eps |z|/sensitivity).

        |z| is the largest of the count's |z_(d+1)| and of the other coordinates, or of the l2 norm
        of these, so that |z| <= 1 is a cylinder over a cube or a ball. A uniform point of it, times
        a radius of Gamma(d + 2, sensitivity/eps), has that density: pure eps-DP, since |values|
        changes by at most `sensitivity` between neighbours (Hardt and Talwar 2010).

        Parameters
        ----------
        values : (trials, d + 1) array
            The count comes last.
        sensitivity : float or array that broadcasts to (trials, 1), or these by relation
            Largest distance in that norm between the values on neighbouring datasets.
        base : {'box', 'ball'}
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
        """Release (trials,) numbers with noise in proportion to a t-smooth sensitivity.

        See `dpbench.privacy.smooth` for what it has to be, and for the noise. It may differ with
        the records, which no receipt shows.

        Raises
        ------
        ValueError
            If the budget does not pay for t.
        """
        sensitivity = self._least(sensitivity)
        noise = smooth.draw(self.rng, values.shape, self.budget, t)
        self.pay(f"noise for a {t:.6g}-smooth sensitivity")
        return self.told(values + self.noise_factor * sensitivity * noise)

    def add_geometric_noise(self, counts: Floats, sensitivity: Stated) -> Floats:
        """Whole numbers with noise Z, P(Z = z) prop. to exp(-eps |z|/sensitivity).

        eps-DP (Ghosh, Roughgarden, Sundararajan 2009), by the difference of two geometrics.

        Parameters
        ----------
        counts : (trials,) or (trials, d) array
            Whole numbers: a fraction would be released as it is.
        sensitivity : float > 0
            Largest l1 distance between the counts of neighbours.
        """
        sensitivity = self.stated(sensitivity)
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
        """Choose an index with probability prop. to weight * exp(eps score/(2 sensitivity)).

        By Gumbel noise. eps-DP (McSherry and Talwar 2007); under other notions eps may be more
        than that of other mechanisms, see `Budget.exponential_epsilon`.

        Parameters
        ----------
        scores : (trials, m) array
        sensitivity : float
            Largest change of any score between neighbours.
        log_weights : (m,) or (trials, m) array, optional
            Of a base measure that may not depend on single records; or the lengths of pieces of
            a range that the records cut up, where the mechanism is the continuous one.
        """
        sensitivity = self.stated(sensitivity)
        if np.any(sensitivity == 0):
            raise ValueError("scores of sensitivity 0 do not depend on the data")
        self.pay("exponential mechanism", sensitivity)
        spread = 2 * self.noise_factor * sensitivity
        exponents = self.budget.exponential_epsilon * scores / spread + log_weights
        chosen = np.asarray(np.argmax(exponents + self.rng.gumbel(size=scores.shape), axis=1))
        return self._on_tape("exponential", scores, chosen, {"max": sensitivity}, log_weights)

    def above_threshold(self, counts: Floats, sensitivity: Stated, threshold: float) -> Ints:
        """Choose the first of counts that rise or fall together which exceeds a threshold.

        The sparse vector technique (Dwork and Roth 2014, section 3.6): each count with noise of its
        own against the threshold with noise, all Laplace of scale 2 sensitivity/epsilon. For counts
        like these that is epsilon-DP (Lyu, Su and Li 2017); others need twice it on the counts.

        Proof, for sensitivity 1. Of neighbours with counts q_j <= q'_j <= q_j + 1 and noises Z_j,
        compare a noisy threshold t with t + 1. The densities there differ by at most e^(epsilon/2).
        Where q_j + Z_j < t is q'_j + Z_j < t + 1: to pass over a count is no less likely. To choose
        one is as likely up to e^(epsilon/2), since t - q_j and t + 1 - q'_j are within 1. The other
        way round compare t with t: to pass over a count is no less likely where it is smaller, and
        to choose one is as likely up to e^(epsilon/2).

        Parameters
        ----------
        counts : (trials, m) array
            All of a neighbour's are at most `sensitivity` above these, or all below.
        sensitivity : float > 0
        threshold : float
            Public.

        Returns
        -------
        (trials,) array of indices
            The last where none exceeds it.
        """
        sensitivity = self.stated(sensitivity)
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
        """Spend the whole ledger, once; the receipt says on what mechanism."""
        super().pay(mechanism, sensitivity)
        if self.tape is not None:
            self.tape.add(Step("pay"))

    def allow_failure(self, delta: float) -> None:
        """Pay for an event of probability at most `delta`, see `Account.allow_failure`."""
        super().allow_failure(delta)
        self.told(np.zeros(0))  # nothing is released, which is the same on all datasets

    def own_chance(self, mechanism: str) -> Budget:
        """Pay for a mechanism that draws its own chance: the budget that it runs at.

        With a noise factor f it is the budget whose noise is f times that of the one that is paid:
        epsilon/f, mu/f, rho/f^2 and the same delta.
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

    def told(self, found: Floats) -> Floats:
        """Return the output of a mechanism that was just paid for: `found`, or the tape's."""
        return found if self.tape is None else self.tape.told(found, self.rng)

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
        """Return `released`, or the output that the tape has in its place."""
        if self.tape is not None:
            step = Step(mechanism, values.copy(), sensitivity, released, weights, draws)
            released = self.tape.add(step, self.rng)
        return released

    def stated(self, sensitivity: Stated) -> Number:
        """What is stated for the budget's neighbours; ValueError if that is nothing, or no size."""
        given = sensitivity if isinstance(sensitivity, Mapping) else {"replace": sensitivity}
        relation = self.budget.neighbours
        if relation not in given:
            raise ValueError(f"no sensitivity is stated for neighbours: {relation}")
        found = given[relation]
        if not ((np.asarray(found) >= 0) & np.isfinite(found)).all():
            raise ValueError(f"sensitivity {found} is not a finite number >= 0")
        return found

    def _least(self, sensitivity: Stated) -> Number:
        """What is stated, or `LEAST_SENSITIVITY`: a larger one, and as smooth, is one, too."""
        return np.maximum(self.stated(sensitivity), LEAST_SENSITIVITY)

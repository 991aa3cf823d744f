"""The ledger: every mechanism draws its noise here, and pays for it here."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from typing import Literal

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.privacy import smooth
from dpbench.privacy.budgets import Budget, PureDP, Relation, _BadEvent
from dpbench.seeds import check_generator

__all__ = ["Ledger", "OverdraftError"]

# Room for the rounding of sums of shares.
SLACK = 1e-9
# Of additive noise. What underflows to 0 would have none, where a neighbour's has some.
LEAST_SENSITIVITY = float(np.finfo(float).tiny)

Number = float | Floats  # of all trials or of each
# A sensitivity: a number is about replacing a record; under add_remove it is given by relation.
Stated = Number | Mapping[Relation, Number]


class OverdraftError(RuntimeError):
    """A release tried to spend more than its budget."""


class Ledger:
    """A budget, what of it is spent, and the random stream of noise and other chance.

    A mechanism spends all of its ledger. To run several, cut the budget first: `split` for steps
    that see the same records (their costs add up), `parallel` for disjoint sets of records fixed
    by index (the largest cost counts once). One ledger serves all trials of a batch, each a
    release of its own, and all groups that are rows of one batch (`Sample.groups`): they are
    disjoint, and pay in parallel. The coordinates of vectors (`Sample.columns`) are not: for them
    there is `repeated`. What costs more than is left raises `OverdraftError`.

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

    def __init__(self, budget: Budget, rng: np.random.Generator) -> None:
        check_generator(rng)
        self.budget = budget
        self.rng = rng
        self._reserved = (0.0,) * len(budget.amounts)
        self._mechanism: str | None = None  # what spent it
        self._groups: list[list[Ledger]] = []  # parts, those of a group in parallel

    @property
    def spent(self) -> tuple[float, ...]:
        """What mechanisms have cost so far, in the notion's amounts."""
        return self.budget.amounts_of(self._cost_in(self.budget))

    @property
    def share(self) -> float:
        """What share of the budget is spent: of the cost of which it is least."""
        costs = zip(self._cost_in(self.budget), self.budget.cost, strict=True)
        return min((float(spent / cost) for spent, cost in costs), default=1.0)

    def _cost_in(self, notion: Budget) -> Floats:
        if self._mechanism is not None:
            return np.asarray(notion.cost_of(self.budget))
        # Parts compose in the notion that this ledger was cut in, and convert once.
        total = np.zeros(len(self.budget.amounts))
        cost = cache(lambda child: child._cost_in(self.budget))  # `repeated` lists one many times
        for group in self._groups:
            total += reduce(np.maximum, map(cost, group))
        if type(notion) is type(self.budget):
            return total
        if not total.any():  # which is no budget
            return np.zeros(len(notion.amounts))
        return np.asarray(notion.cost_of(type(self.budget)(*self.budget.amounts_of(total))))

    def split(self, *parts: float | Budget) -> list[Ledger]:
        """Cut the budget for steps that follow each other on the same records.

        The parts are shares of this budget, or budgets of a notion that implies this one.
        """
        budgets = [p if isinstance(p, Budget) else self.budget.fraction(p) for p in parts]
        if any(budget.neighbours != self.budget.neighbours for budget in budgets):
            raise ValueError(f"{budgets} are not all about the neighbours of {self.budget}")
        self._reserve(*budgets)
        children = [Ledger(budget, self.rng) for budget in budgets]
        self._groups += [[child] for child in children]
        return children

    def parallel(self, parts: int) -> list[Ledger]:
        """Give each of `parts` disjoint sets of records the whole budget.

        They must be fixed by record index, and not by value: replacing a record changes one set.
        """
        _check_number("parts", parts)
        self._reserve(self.budget)
        children = [Ledger(self.budget, self.rng) for _ in range(parts)]
        self._groups.append(children)
        return children

    def allow_failure(self, delta: float) -> None:
        """Pay for an event of probability at most `delta` under which a later bound is wrong.

        If, given all earlier releases, later steps cost (eps, delta') unless that event
        occurs, the whole costs delta + delta'. Only (eps, delta) budgets can pay for it.
        """
        (event,) = self.split(_BadEvent(delta, self.budget.neighbours))
        event.pay("an event under which a later bound is wrong")

    def repeated(self, times: int) -> Ledger:
        """One ledger for `times` releases on the same records, the rows of one batch.

        Each row pays 1/times of the budget: for coordinates, which `Sample.columns` puts in rows.
        """
        _check_number("times", times)
        child = Ledger(self.budget.fraction(1 / times), self.rng)
        self._reserve(*[child.budget] * times)
        self._groups.extend([child] for _ in range(times))
        return child

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
        _check_number("draws", draws)
        self.pay("additive noise", l2)
        single = values.ndim == 1 or d == 1
        noise = self.budget.noise(self.rng, values.shape, l1, l2, draws, single=single)
        return values + noise

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
        return np.asarray(values + radius * direction)

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
        return np.asarray(values + radius * point)

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
        return values + sensitivity * noise

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
        return np.asarray(counts + (first - second))

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
        exponents = self.budget.exponential_epsilon * scores / (2 * sensitivity) + log_weights
        return np.asarray(np.argmax(exponents + self.rng.gumbel(size=scores.shape), axis=1))

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
        around = (sensitivity, sensitivity)
        level = threshold + half.noise(self.rng, (len(counts), 1), *around)
        passed = counts + half.noise(self.rng, counts.shape, *around) >= level
        passed[:, -1] = True
        return np.asarray(passed.argmax(axis=1))

    def pay(
        self, mechanism: str = "a mechanism of its own", sensitivity: Number | None = None
    ) -> None:
        """Spend the whole ledger, once; the receipt says on what mechanism."""
        self._reserve(self.budget)
        if sensitivity is not None:
            low, high = np.min(sensitivity), np.max(sensitivity)
            mechanism += f", sensitivity {low:.6g}" + (f" to {high:.6g}" if high > low else "")
        self._mechanism = mechanism

    def own_chance(self, mechanism: str) -> Budget:
        """Pay for a mechanism that draws its own chance: the budget that it runs at."""
        self.pay(mechanism)
        return self.budget

    def told(self, found: Floats) -> Floats:
        """`found`: what a mechanism that was just paid for releases, on which later steps rest."""
        return found

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

    def receipt(self) -> str:
        """What was spent on what, a line for each part, and what is left."""
        cost = np.asarray(self.budget.cost)
        left = cost - self._cost_in(self.budget)
        left = np.where(left > SLACK * cost, left, 0.0)
        text = _written(self.budget, self.budget.amounts_of(left))
        return "\n".join([*self._lines(), f"left: {text or 'nothing'}"])

    __str__ = receipt

    def _lines(self, note: str = "") -> list[str]:
        name = f"{note}{self.budget.label} {_written(self.budget, self.budget.amounts)}".rstrip()
        if not self._groups:
            return [f"{name}: {self._mechanism or 'not spent'}"]
        lines = [name]
        for _, same in itertools.groupby(self._groups, key=lambda group: id(group[0])):
            group, *again = same
            times = f"{1 + len(again)} times: " if again else ""
            note = "in parallel: " if len(group) > 1 else times
            lines += [f"  {line}" for part in group for line in part._lines(note)]
        return lines

    def _reserve(self, *budgets: Budget) -> None:
        costs = self._reserved, *map(cache(self.budget.cost_of), budgets)
        reserved = tuple(map(sum, zip(*costs, strict=True)))
        if any(r > most * (1 + SLACK) for r, most in zip(reserved, self.budget.cost, strict=True)):
            wanted = " + ".join(str(budget) for budget in budgets)
            taken = self.budget.amounts_of(self._reserved)
            raise OverdraftError(
                f"{wanted} exceeds what is left of {self.budget}: {taken} is taken"
            )
        self._reserved = reserved


def _written(budget: Budget, amounts: Iterable[float]) -> str:
    named = zip(budget.named_amounts, amounts, strict=True)
    return ", ".join(f"{name} {amount:.6g}" for name, amount in named)


def _check_number(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} is {number}; at least one is needed")

"""Privacy budgets: what a release may cost, and the noise that a cost buys.

Neighbours differ by replacing one record, and n is public; or by adding or removing one, and n is
private, too. What is implied holds under the same relation; `dpbench.privacy.neighbours` has what
one says of the other. All guarantees are over ideal reals: floating-point noise is not hardened.

References
----------
.. [1] M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016.
.. [2] M. Cesar, R. Rogers, "Bounding, concentrating, and truncating", ALT 2021.
.. [3] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018.
.. [4] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.arrays import Floats
from dpbench.privacy import staircase
from dpbench.privacy.conversions import (
    analytic_sd,
    approx_of_rho,
    gaussian_delta,
    mu_of_pure,
    pure_of_mu,
    pure_of_rho,
    rho_of_pure,
)  # fmt: skip
from dpbench.privacy.noise_factor import current_noise_factor
from dpbench.registry import Registered, validated_positional

__all__ = ["AMOUNTS", "GDP", "ZCDP", "ApproxDP", "Budget", "NonPrivate", "PureDP", "Relation"]

# The columns that hold what a budget allows.
AMOUNTS = ("epsilon", "delta", "rho", "mu")

LEAST, LEAST_EPSILON = 1e-12, 1e-9  # of any amount, and of what another notion implies
Relation = Literal["replace", "add_remove"]
Positive = Annotated[float, Field(gt=0, ge=LEAST, le=1e6)]


class Budget(Registered):
    """A privacy guarantee of one `notion`, a dataclass of its `AMOUNTS`.

    Parameters
    ----------
    neighbours : {'replace', 'add_remove'}
        What neighbouring datasets differ by. Under ``add_remove`` n is private: an estimator must
        not read it. That there is a record at all is public, as empty data are refused.

    Attributes
    ----------
    power : int
        Amounts to this power add up under sequential composition.
    """

    neighbours: Relation = "replace"
    notion: ClassVar[str]
    power: ClassVar[int] = 1
    added_parameters: ClassVar[dict[str, Any]] = {"neighbours": "replace"}

    @property
    def label(self) -> str:
        """The notion, with the mechanism and the neighbours where they are not the default ones."""
        given = [(one.default, getattr(self, one.name)) for one in fields(self)]  # type: ignore[arg-type]
        chosen = [f"_{value}" for default, value in given if default not in (MISSING, value)]
        return self.notion + "".join(chosen)

    @cached_property
    def columns(self) -> dict[str, str | float]:
        """The budget in a table: its label, ``privacy``, and `AMOUNTS`, NaN where it has none."""
        none = dict.fromkeys(AMOUNTS, np.nan)
        return {"privacy": self.label, **none, **self.named_amounts}

    @cached_property
    def named_amounts(self) -> dict[str, float]:
        """What is promised, by name."""
        return {name: getattr(self, name) for name in AMOUNTS if hasattr(self, name)}

    @property
    def amounts(self) -> tuple[float, ...]:
        return tuple(self.named_amounts.values())

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """What adds up under sequential composition: every amount to the notion's `power`."""
        return tuple(amount**self.power for amount in self.amounts)

    @classmethod
    def amounts_of(cls, cost: Iterable[float]) -> tuple[float, ...]:
        """The amounts of a cost."""
        return tuple(float(one) ** (1 / cls.power) for one in cost)

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        """The cost in this notion of a release that satisfies `other`, if that implies it."""
        if isinstance(other, type(self)):
            return other.cost
        raise ValueError(f"{other.notion} implies no {self.notion} guarantee")

    def _approx(self, epsilon: float, delta: float) -> ApproxDP:
        """What the same neighbours are promised."""
        return ApproxDP(epsilon, delta, neighbours=self.neighbours)

    def fraction(self, share: float) -> Self:
        """What costs the part `share` of this, 0 < share <= 1."""
        factor = share ** (1 / self.power)
        parts = {name: amount * factor for name, amount in self.named_amounts.items()}
        return replace(self, **parts)  # type: ignore[type-var]  # all subclasses are dataclasses

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float | None:
        """Standard deviation of Gaussian noise at l2 sensitivity 1; None for other noise."""
        return None

    def gaussian(self, l1: float | Floats, l2: float | Floats) -> bool:
        """Whether the additive noise for these sensitivities is Gaussian."""
        return self._sd(l1, l2) is not None

    @property
    def _steps(self) -> bool:
        """Whether one number has staircase noise, and not Laplace."""
        return getattr(self, "noise_by", None) == "staircase"

    def noise(
        self,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        l1: float | Floats,
        l2: float | Floats,
        draws: int = 1,
        *,
        single: bool = False,
    ) -> Floats:
        """The average of `draws` independent noises that each cost the whole budget.

        The sensitivities broadcast to `shape`; the notion's mechanism takes the one that it uses.
        `single` says that every element is a release of one number: none is a vector's coordinate.
        """
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(rng.normal(0.0, sd * l2 / np.sqrt(draws), shape))
        if self._steps and single and draws == 1:
            return np.asarray(l1 * staircase.draw(rng, shape, self.pure_epsilon))
        scale = l1 / self.pure_epsilon
        if draws == 1:
            return np.asarray(rng.laplace(0.0, scale, shape))
        # A Laplace is the difference of two exponentials, so a sum of them is one of two gammas.
        gammas = rng.standard_gamma(draws, shape) - rng.standard_gamma(draws, shape)
        return np.asarray(scale / draws * gammas)

    def noise_quantile(self, beta: float) -> float:
        """The 1 - beta quantile of the absolute noise at sensitivity 1, for one number."""
        return float(self.noise_tail(np.asarray(beta) / 2, 1.0, 1.0))

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        """The point that one number's noise exceeds with probability `upper` <= 1/2.

        One number has l1 = l2; if not, it is a vector's coordinate. `noise_times` counts.
        """
        factor = current_noise_factor()
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(factor * (-sd * l2 * ndtri(upper)))
        if self._steps and l1 == l2:
            return np.asarray(factor * (l1 * staircase.upper_quantile(upper, self.pure_epsilon)))
        return np.asarray(factor * (-np.log(2 * upper) * l1 / self.pure_epsilon))

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of the pure-DP mechanisms that this budget pays for."""
        if "epsilon" not in self.named_amounts:
            raise ValueError(f"a {self.notion} budget pays for no pure-DP mechanism")
        return self.named_amounts["epsilon"]

    @property
    def exponential_epsilon(self) -> float:
        """The epsilon at which this budget pays for the exponential mechanism."""
        return self.pure_epsilon


@validated_positional
class PureDP(Budget):
    """epsilon-DP, by Laplace noise of scale l1/epsilon on each coordinate.

    Parameters
    ----------
    epsilon : float > 0
    noise_by : {'laplace', 'staircase'}
        The noise of what is one number: ``staircase`` has the smaller mean, and from epsilon = 3
        on the smaller 0.9 quantile, too (`dpbench.privacy.staircase`). Vectors, histograms and
        averages of many noises have Laplace noise all the same.
    """

    epsilon: Positive
    noise_by: Literal["laplace", "staircase"] = "laplace"
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "pure"
    added_parameters: ClassVar[dict[str, Any]] = {**Budget.added_parameters, "noise_by": "laplace"}


@validated_positional
class ZCDP(Budget):
    """rho-zCDP, by Gaussian noise of standard deviation l2/sqrt(2 rho).

    Parameters
    ----------
    rho : float > 0
    """

    rho: Positive
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "zcdp"

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        if isinstance(other, PureDP):
            return (rho_of_pure(other.epsilon),)
        if isinstance(other, GDP):
            return (other.mu**2 / 2,)  # N(0, 1) and N(mu, 1) are the worst pair [4]_
        return super().cost_of(other)

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float:
        return float(1 / np.sqrt(2 * self.rho))  # Proposition 1.6 of [1]_

    @property
    def pure_epsilon(self) -> float:
        return pure_of_rho(self.rho)

    @property
    def exponential_epsilon(self) -> float:
        return float(np.sqrt(8 * self.rho))  # Lemma 3.2 of [2]_, for this mechanism

    def to_approx(self, delta: float) -> ApproxDP:
        """The smallest epsilon at which rho-zCDP implies (epsilon, delta)-DP: `approx_of_rho`."""
        # A small rho implies even (0, delta)-DP; an epsilon here is positive.
        return self._approx(max(approx_of_rho(self.rho, delta), LEAST_EPSILON), delta)

    @classmethod
    @cache
    def within(cls, budget: ApproxDP) -> Self:
        """The largest rho whose conversion stays within an (epsilon, delta) budget."""
        from scipy.optimize import brentq

        def excess(log_rho: float) -> float:
            return cls(rho=np.exp(log_rho)).to_approx(budget.delta).epsilon - budget.epsilon

        # By the classical conversion epsilon^2/(16 ln(1/delta)) is enough while
        # epsilon <= ln(1/delta). The answer is near epsilon unless delta is large.
        low = np.log(min(budget.epsilon, 1.0) ** 2 / (100 * np.log(np.e / budget.delta)))
        high = np.log(budget.epsilon)
        while excess(high) < 0:
            high += 1
        low = max(low, np.log(LEAST))
        if excess(low) > 0:
            raise ValueError(f"no rho >= {LEAST:g} is within {budget}")
        rho = float(np.exp(brentq(excess, low, high, xtol=1e-12)))
        return cls(rho, neighbours=budget.neighbours)


@validated_positional
class GDP(Budget):
    """mu-Gaussian differential privacy [4]_, by Gaussian noise of standard deviation l2/mu.

    No test tells neighbours apart better than N(0, 1) from N(mu, 1). What adds up is mu^2. It is
    implied by pure DP, but not by rho-zCDP with mu = sqrt(2 rho), nor by (epsilon, delta)-DP; it
    implies both.

    Parameters
    ----------
    mu : float > 0
    """

    mu: Positive
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "gdp"
    power: ClassVar[int] = 2

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        if isinstance(other, PureDP):
            return (mu_of_pure(other.epsilon) ** 2,)
        return super().cost_of(other)

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float:
        return 1 / self.mu

    @property
    def pure_epsilon(self) -> float:
        return pure_of_mu(self.mu)

    @property
    def exponential_epsilon(self) -> float:
        # An epsilon of this mechanism costs what epsilon/2 of any other does.
        return 2 * pure_of_mu(self.mu)

    def to_approx(self, delta: float) -> ApproxDP:
        """The smallest epsilon at which mu-GDP implies (epsilon, delta)-DP: `gaussian_delta`."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return gaussian_delta(1 / self.mu, epsilon) - delta

        # As for rho-zCDP an epsilon is positive; rho + 2 sqrt(rho ln(1/delta)) is enough of it.
        if excess(LEAST_EPSILON) <= 0:
            return self._approx(LEAST_EPSILON, delta)
        enough = self.mu**2 / 2 + self.mu * np.sqrt(-2 * np.log(delta))
        found = brentq(excess, LEAST_EPSILON, enough, xtol=1e-15, rtol=1e-14)
        return self._approx(found, delta)


@validated_positional
class ApproxDP(Budget):
    """(epsilon, delta)-DP.

    Laplace noise and the exponential mechanism leave the delta of their ledger unused: they are
    epsilon-DP. Another step could have it, which gains only if its noise is Gaussian, and little:
    for twice a delta of 1e-6 at epsilon = 1 that has 0.966 of the standard deviation.

    Parameters
    ----------
    epsilon : float > 0
    delta : float in (0, 1)
    noise_by : {'best', 'analytic', 'classical', 'ksu20', 'laplace'}
        Where the additive noise comes from. ``laplace``: Laplace at epsilon, which leaves delta
        unused. ``analytic``: Gaussian with the smallest standard deviation s l2 [3]_. ``best``: of
        these two the one of smaller variance, Laplace where sqrt(2) l1/epsilon <= s l2. For one
        number that is up to delta = 2.5e-4 at epsilon = 0.01 and 0.040 at 1 (where the 0.9
        quantiles of the absolute noise meet it is 2.6e-4 and 0.041); for l1 = sqrt(d) l2, at
        epsilon = 1 and delta = 1e-6, up to d = 8 coordinates.
        ``classical``, ``ksu20``: Gaussian with sqrt(2 ln(1.25/delta)) l2/epsilon, or
        with sqrt(2 ln(2/delta)) l2/epsilon (KSU20, Lemma 2.8), both for epsilon <= 1 only.
    """

    epsilon: Positive
    delta: Annotated[float, Field(gt=0, lt=1)]
    noise_by: Literal["best", "analytic", "classical", "ksu20", "laplace"] = "best"
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "approx"

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.noise_by in ("classical", "ksu20") and self.epsilon > 1:
            raise ValueError(
                f"the {self.noise_by} Gaussian mechanism is private for epsilon <= 1 only, "
                f"got {self.epsilon}; take noise_by=analytic"
            )
        return self

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        if isinstance(other, PureDP):
            return (other.epsilon, 0.0)
        if isinstance(other, _BadEvent):
            return (0.0, other.delta)
        if isinstance(other, ZCDP | GDP):
            other = other.to_approx(self.delta)
        return super().cost_of(other)

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float | None:
        laplace = self.noise_by == "laplace"
        if self.noise_by == "best":  # one choice for all trials of a batch
            laplace = bool(np.all(np.sqrt(2) * l1 / self.epsilon <= self._gaussian * l2))
        return None if laplace else self._gaussian

    @cached_property
    def _gaussian(self) -> float:
        """Standard deviation of its Gaussian noise at l2 sensitivity 1."""
        factors = {"classical": 1.25, "ksu20": 2.0}
        if self.noise_by not in factors:
            return analytic_sd(self.epsilon, self.delta)
        return float(np.sqrt(2 * np.log(factors[self.noise_by] / self.delta)) / self.epsilon)


@validated_positional
class _BadEvent(Budget):
    """No release, but an event of probability delta under which nothing is promised."""

    delta: Annotated[float, Field(gt=0, lt=1)]
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "bad_event"


@validated_positional
class NonPrivate(Budget):
    """No privacy: the reference for what privacy costs."""

    notion: ClassVar[str] = "none"

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        return ()

    def noise(
        self, rng: np.random.Generator, shape: tuple[int, ...], *about: Any, **options: Any
    ) -> Floats:
        return np.zeros(shape)

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        return np.zeros_like(upper)

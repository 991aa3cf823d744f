"""Privacy budgets: the guarantee of a release, and the noise that the guarantee needs.

Neighbouring datasets differ by replacing one record, and n is public; or by adding or removing one
record, and n is private. Conversions between notions of privacy keep this relation;
`dpbench.privacy.neighbours` converts between the two relations. All guarantees hold for ideal real
numbers: the noise is not protected against attacks on floating-point arithmetic.

References
----------
.. [1] M. Cesar, R. Rogers, "Bounding, concentrating, and truncating", ALT 2021.
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

# Privacy parameters, as columns of tables of results.
AMOUNTS = ("epsilon", "delta", "rho", "mu")

LEAST, LEAST_EPSILON = 1e-12, 1e-9  # smallest amount of a budget; smallest converted epsilon
Relation = Literal["replace", "add_remove"]
Positive = Annotated[float, Field(gt=0, ge=LEAST, le=1e6)]


class Budget(Registered):
    """Privacy guarantee of one `notion`, a dataclass of some of `AMOUNTS`.

    Parameters
    ----------
    neighbours : {'replace', 'add_remove'}
        Difference of neighbouring datasets: a replaced record, or a record that is added or
        removed. Under ``add_remove`` n is private, and an estimator must not read it. It is public
        that there is at least one record, because empty data are rejected.

    Attributes
    ----------
    power : int
        Power of the amounts that adds up under sequential composition.
    """

    neighbours: Relation = "replace"
    notion: ClassVar[str]
    power: ClassVar[int] = 1
    added_parameters: ClassVar[dict[str, Any]] = {"neighbours": "replace"}

    @property
    def label(self) -> str:
        """Notion, followed by all fields that differ from their defaults."""
        given = [(one.default, getattr(self, one.name)) for one in fields(self)]  # type: ignore[arg-type]
        chosen = [f"_{value}" for default, value in given if default not in (MISSING, value)]
        return self.notion + "".join(chosen)

    @cached_property
    def columns(self) -> dict[str, str | float]:
        """Row of a table: the label as ``privacy``, and `AMOUNTS`, NaN for those it lacks."""
        none = dict.fromkeys(AMOUNTS, np.nan)
        return {"privacy": self.label, **none, **self.named_amounts}

    @cached_property
    def named_amounts(self) -> dict[str, float]:
        """Amounts by name."""
        return {name: getattr(self, name) for name in AMOUNTS if hasattr(self, name)}

    @property
    def amounts(self) -> tuple[float, ...]:
        return tuple(self.named_amounts.values())

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """Amounts to the notion's `power`, which add up under sequential composition."""
        return tuple(amount**self.power for amount in self.amounts)

    @classmethod
    def amounts_of(cls, cost: Iterable[float]) -> tuple[float, ...]:
        """Return the amounts of a cost; the inverse of `cost`."""
        return tuple(float(one) ** (1 / cls.power) for one in cost)

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        """Return the cost of a release that satisfies `other`; ValueError if there is no bound."""
        if isinstance(other, type(self)):
            return other.cost
        raise ValueError(f"{other.notion} implies no {self.notion} guarantee")

    def _approx(self, epsilon: float, delta: float) -> ApproxDP:
        """Return (epsilon, delta)-DP with the neighbours of this budget."""
        return ApproxDP(epsilon, delta, neighbours=self.neighbours)

    def fraction(self, share: float) -> Self:
        """Return the budget that costs `share` of this budget's cost, 0 < share <= 1."""
        factor = share ** (1 / self.power)
        parts = {name: amount * factor for name, amount in self.named_amounts.items()}
        return replace(self, **parts)  # type: ignore[type-var]  # all subclasses are dataclasses

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float | None:
        """Return the standard deviation of Gaussian noise at l2 = 1; None for other noise."""
        return None

    def gaussian(self, l1: float | Floats, l2: float | Floats) -> bool:
        """Return whether the additive noise for these sensitivities is Gaussian.

        Parameters
        ----------
        l1, l2 : float or ndarray
            Sensitivities of the released values in the two norms.
        """
        return self._sd(l1, l2) is not None

    @property
    def _steps(self) -> bool:
        """True if a single number has staircase noise in place of Laplace noise."""
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
        """Draw additive noise: the average of `draws` noises that each cost the whole budget.

        Parameters
        ----------
        rng : Generator
            Source of the noise.
        shape : tuple of int
            Shape of the result.
        l1, l2 : float or ndarray
            Sensitivities, which broadcast to `shape`; the mechanism uses one of them.
        draws : int
            Number of independent noises to average.
        single : bool
            Whether every element is a release of one number, and not a coordinate of a vector.
        """
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(rng.normal(0.0, sd * l2 / np.sqrt(draws), shape))
        if self._steps and single and draws == 1:
            return np.asarray(l1 * staircase.draw(rng, shape, self.pure_epsilon))
        scale = l1 / self.pure_epsilon
        if draws == 1:
            return np.asarray(rng.laplace(0.0, scale, shape))
        # A Laplace variable is a difference of exponentials; a sum of them, a difference of gammas.
        gammas = rng.standard_gamma(draws, shape) - rng.standard_gamma(draws, shape)
        return np.asarray(scale / draws * gammas)

    def noise_quantile(self, beta: float) -> float:
        """Return the 1 - beta quantile of the absolute noise of one number of sensitivity 1."""
        return float(self.noise_tail(np.asarray(beta) / 2, 1.0, 1.0))

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        """Return the point that the noise of one number exceeds with probability `upper`.

        Inside `noise_times` the point is multiplied by the noise factor.

        Parameters
        ----------
        upper : ndarray
            Probabilities, at most 1/2.
        l1, l2 : float
            Sensitivities: equal for one number; if they differ, it is a coordinate of a vector.
        """
        factor = current_noise_factor()
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(factor * (-sd * l2 * ndtri(upper)))
        if self._steps and l1 == l2:
            return np.asarray(factor * (l1 * staircase.upper_quantile(upper, self.pure_epsilon)))
        return np.asarray(factor * (-np.log(2 * upper) * l1 / self.pure_epsilon))

    @property
    def pure_epsilon(self) -> float:
        """Largest epsilon of a pure-DP mechanism that this budget pays for."""
        if "epsilon" not in self.named_amounts:
            raise ValueError(f"a {self.notion} budget pays for no pure-DP mechanism")
        return self.named_amounts["epsilon"]

    @property
    def exponential_epsilon(self) -> float:
        """Largest epsilon of an exponential mechanism that this budget pays for."""
        return self.pure_epsilon


@validated_positional
class PureDP(Budget):
    """Pure differential privacy (epsilon-DP), with Laplace noise of scale l1/epsilon.

    Parameters
    ----------
    epsilon : float > 0
        Bound on the log-likelihood ratio of a release on neighbouring datasets.
    noise_by : {'laplace', 'staircase'}
        Noise of a single number. ``staircase`` has the smaller mean absolute value, and from
        epsilon = 3 on also the smaller 0.9 quantile of it (`dpbench.privacy.staircase`). Vectors,
        histograms and averages of several noises always have Laplace noise.
    """

    epsilon: Positive
    noise_by: Literal["laplace", "staircase"] = "laplace"
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "pure"
    added_parameters: ClassVar[dict[str, Any]] = {**Budget.added_parameters, "noise_by": "laplace"}


@validated_positional
class ZCDP(Budget):
    """Zero-concentrated DP (rho-zCDP), with Gaussian noise of standard deviation l2/sqrt(2 rho).

    Parameters
    ----------
    rho : float > 0
        The Renyi divergence of order a of a release on neighbouring datasets is at most rho a.
    """

    rho: Positive
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "zcdp"

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        if isinstance(other, PureDP):
            return (rho_of_pure(other.epsilon),)
        if isinstance(other, GDP):
            return (other.mu**2 / 2,)  # N(0, 1) and N(mu, 1) are the worst pair
        return super().cost_of(other)

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float:
        return float(1 / np.sqrt(2 * self.rho))  # BS16, Proposition 1.6

    @property
    def pure_epsilon(self) -> float:
        return pure_of_rho(self.rho)

    @property
    def exponential_epsilon(self) -> float:
        return float(np.sqrt(8 * self.rho))  # [1]_, Lemma 3.2, for this mechanism only

    def to_approx(self, delta: float) -> ApproxDP:
        """Return the implied (epsilon, delta)-DP budget, with the epsilon of `approx_of_rho`."""
        # A small rho implies even (0, delta)-DP, but the epsilon of a budget must be positive.
        return self._approx(max(approx_of_rho(self.rho, delta), LEAST_EPSILON), delta)

    @classmethod
    @cache
    def within(cls, budget: ApproxDP) -> Self:
        """Return the zCDP budget with the largest rho whose `to_approx` is within `budget`."""
        from scipy.optimize import brentq

        def excess(log_rho: float) -> float:
            return cls(rho=np.exp(log_rho)).to_approx(budget.delta).epsilon - budget.epsilon

        # The classical conversion allows rho = epsilon^2/(16 ln(1/delta)) for
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
    """Gaussian differential privacy (mu-GDP, DRS22), with noise of standard deviation l2/mu.

    No test distinguishes neighbouring datasets better than N(0, 1) from N(mu, 1). mu^2 adds up
    under composition. Pure DP implies mu-GDP, and mu-GDP implies (mu^2/2)-zCDP and
    (epsilon, delta)-DP, but neither of these implies mu-GDP.

    Parameters
    ----------
    mu : float > 0
        Distance of the two normal distributions, in standard deviations.
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
        # This mechanism at epsilon costs as much as any other at epsilon/2, see `conversions`.
        return 2 * pure_of_mu(self.mu)

    def to_approx(self, delta: float) -> ApproxDP:
        """Return (epsilon, delta)-DP with the smallest implied epsilon, by `gaussian_delta`."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return gaussian_delta(1 / self.mu, epsilon) - delta

        # The epsilon of a budget must be positive. With rho = mu^2/2,
        # rho + 2 sqrt(rho ln(1/delta)) is an upper bound (BS16, Proposition 1.3).
        if excess(LEAST_EPSILON) <= 0:
            return self._approx(LEAST_EPSILON, delta)
        enough = self.mu**2 / 2 + self.mu * np.sqrt(-2 * np.log(delta))
        found = brentq(excess, LEAST_EPSILON, enough, xtol=1e-15, rtol=1e-14)
        return self._approx(found, delta)


@validated_positional
class ApproxDP(Budget):
    """Approximate differential privacy, (epsilon, delta)-DP.

    Laplace noise and the exponential mechanism are epsilon-DP and leave the delta of their ledger
    unused. Another step could use this delta, but it gains little, and only if its noise is
    Gaussian: at epsilon = 1, doubling delta = 1e-6 multiplies the standard deviation by 0.966.

    Parameters
    ----------
    epsilon : float > 0
        Bound on the log-likelihood ratio of a release, up to `delta`.
    delta : float in (0, 1)
        Probability mass to which the bound need not apply.
    noise_by : {'best', 'analytic', 'classical', 'ksu20', 'laplace'}
        Additive noise. ``laplace``: Laplace noise at epsilon. ``analytic``: Gaussian noise with the
        smallest standard deviation s l2 (BW18). ``best``: Laplace noise if
        sqrt(2) l1/epsilon <= s l2, which has the smaller variance, else ``analytic``. For one
        number, ``best`` is Laplace noise up to delta = 2.5e-4 at epsilon = 0.01 and up to 0.040 at
        epsilon = 1 (the 0.9 quantiles of the absolute noise are equal at 2.6e-4 and 0.041); for
        l1 = sqrt(d) l2, epsilon = 1 and delta = 1e-6, up to d = 8 coordinates.
        ``classical``, ``ksu20``: Gaussian noise with standard deviation
        sqrt(2 ln(1.25/delta)) l2/epsilon, or sqrt(2 ln(2/delta)) l2/epsilon (KSU20, Lemma 2.8),
        both for epsilon <= 1 only.
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
        if self.noise_by == "best":  # choose once for all trials of a batch
            laplace = bool(np.all(np.sqrt(2) * l1 / self.epsilon <= self._gaussian * l2))
        return None if laplace else self._gaussian

    @cached_property
    def _gaussian(self) -> float:
        """Standard deviation of the Gaussian noise at l2 sensitivity 1."""
        factors = {"classical": 1.25, "ksu20": 2.0}
        if self.noise_by not in factors:
            return analytic_sd(self.epsilon, self.delta)
        return float(np.sqrt(2 * np.log(factors[self.noise_by] / self.delta)) / self.epsilon)


@validated_positional
class _BadEvent(Budget):
    """Cost of an event of probability delta under which no guarantee holds; it releases nothing."""

    delta: Annotated[float, Field(gt=0, lt=1)]
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "bad_event"


@validated_positional
class NonPrivate(Budget):
    """No privacy and no noise: the reference for the cost of privacy."""

    notion: ClassVar[str] = "none"

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        return ()

    def noise(
        self, rng: np.random.Generator, shape: tuple[int, ...], *about: Any, **options: Any
    ) -> Floats:
        return np.zeros(shape)

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        return np.zeros_like(upper)

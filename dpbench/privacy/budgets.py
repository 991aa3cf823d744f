"""Privacy budgets: the guarantee of a release, and the noise that the guarantee needs.

There are two relations of neighbouring datasets. Either one record is replaced, and n is public; or
one record is added or removed, and n is private. Conversions between notions of privacy keep the
relation; `dpbench.privacy.neighbours` converts between the relations. All guarantees hold for ideal
real numbers: the noise is not protected against attacks on floating-point arithmetic.

References
----------
.. [1] M. Cesar, R. Rogers, "Bounding, concentrating, and truncating", ALT 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache, cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpbench.arrays import Floats
from dpbench.privacy import staircase
from dpbench.privacy.canonical import CanonicalNoise, NumberNoise, gaussian_noise, tulap_noise
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
from dpbench.registry import ConfigError, Registered, validated_positional

__all__ = ["AMOUNTS", "GDP", "ZCDP", "ApproxDP", "Budget", "NonPrivate", "PureDP", "Relation"]

# Privacy parameters, as columns of tables of results.
AMOUNTS = ("epsilon", "delta", "rho", "mu")

MIN_AMOUNT = 1e-12  # smallest amount of a budget
MAX_AMOUNT = 1e6  # largest amount of a budget
MIN_CONVERTED_EPSILON = 1e-9  # smallest epsilon of a converted budget
ROUNDING = 1e-10  # relative rounding error of conversions, below the tolerance of accounts
QUANTILES = 1 << 17  # quantiles of the noise from which its variance is computed
Relation = Literal["replace", "add_remove"]
Positive = Annotated[float, Field(gt=0, ge=MIN_AMOUNT, le=MAX_AMOUNT)]
# A delta below the smallest normal double has few digits, and its reciprocal may be infinite.
Delta = Annotated[float, Field(gt=0, ge=float(np.finfo(float).tiny), lt=1)]


class Budget(Registered):
    """Privacy guarantee in one notion of privacy, with parameters such as epsilon and delta.

    Parameters
    ----------
    neighbours : {'replace', 'add_remove'}
        Difference of neighbouring datasets: a replaced record, or a record that is added or
        removed. Under ``add_remove`` n is private, and an estimator must not read it. It is public
        that there is at least one record, because empty data are rejected.

    Attributes
    ----------
    power : int
        Power of the privacy parameters that adds up under sequential composition: 2 for mu of
        Gaussian differential privacy, else 1.
    """

    neighbours: Relation = "replace"
    notion: ClassVar[str]
    power: ClassVar[int] = 1

    @property
    def label(self) -> str:
        """Label in tables: the notion of privacy, then values that differ from their defaults."""
        settings = [(field.default, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]
        suffixes = [f"_{value}" for default, value in settings if default not in (MISSING, value)]
        return self.notion + "".join(suffixes)

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters alone, because some cached values cannot be sent to a process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @cached_property
    def columns(self) -> dict[str, str | float]:
        """Columns of a table of results: the label as ``privacy``, and all privacy parameters.

        Privacy parameters that this budget does not have are NaN.
        """
        none = dict.fromkeys(AMOUNTS, np.nan)
        return {"privacy": self.label, **none, **self.named_amounts}

    @cached_property
    def named_amounts(self) -> dict[str, float]:
        """Privacy parameters of the budget, keyed by names such as epsilon."""
        return {name: getattr(self, name) for name in AMOUNTS if hasattr(self, name)}

    @property
    def amounts(self) -> tuple[float, ...]:
        """Privacy parameters of the budget, in the order epsilon, delta, rho, mu."""
        return tuple(self.named_amounts.values())

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """Costs that add up under composition: the privacy parameters to the power `power`."""
        return tuple(amount**self.power for amount in self.amounts)

    @classmethod
    def amounts_of(cls, cost: Iterable[float]) -> tuple[float, ...]:
        """Return the privacy parameters of a budget with the given `cost`."""
        return tuple(float(component) ** (1 / cls.power) for component in cost)

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        """Return the cost, in this budget's notion of privacy, of a release that satisfies `other`.

        Raise ValueError if `other` implies no guarantee in this notion.
        """
        if isinstance(other, type(self)):
            return other.cost
        raise ValueError(f"{other.notion} implies no {self.notion} guarantee")

    def _approx(self, epsilon: float, delta: float) -> ApproxDP:
        """Return an (epsilon, delta)-DP budget with the neighbour relation of this budget."""
        return ApproxDP(epsilon, delta, neighbours=self.neighbours)

    def fraction(self, share: float) -> Self:
        """Return a budget with `share` times the cost of this budget, 0 < share <= 1."""
        factor = share ** (1 / self.power)
        parts = {name: amount * factor for name, amount in self.named_amounts.items()}
        return replace(self, **parts)  # type: ignore[type-var]  # all subclasses are dataclasses

    def _sd(self, l1: float | Floats, l2: float | Floats) -> float | None:
        """Return the standard deviation of Gaussian noise at l2 sensitivity 1, or None for Laplace.

        The sensitivities l1 and l2 decide which noise an (epsilon, delta)-DP budget uses.
        """
        return None

    def gaussian(self, l1: float | Floats, l2: float | Floats) -> bool:
        """Return whether the additive noise for these sensitivities is Gaussian.

        Parameters
        ----------
        l1, l2 : float or ndarray
            Sensitivities of the released values in the l1 and in the l2 norm.

        Returns
        -------
        bool
        """
        return self._sd(l1, l2) is not None

    @property
    def _number_noise(self) -> NumberNoise | None:
        """Noise of a single number in place of Laplace noise; None if there is no such noise."""
        return None

    @cached_property
    def canonical_noise(self) -> CanonicalNoise:
        """Canonical noise of a number of sensitivity 1, see `dpbench.privacy.canonical`.

        It does not depend on `noise_by`. Under zCDP it is Gaussian noise. Raise ValueError for a
        budget without privacy.
        """
        raise ValueError(f"a {self.notion} budget has no canonical noise")

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
        """Draw additive noise for released values: the average of `draws` independent noises.

        Each of the averaged noises has the full size that this budget demands.

        Parameters
        ----------
        rng : Generator
            Source of the noise.
        shape : tuple of int
            Shape of the result.
        l1, l2 : float or ndarray
            Sensitivities in the l1 and in the l2 norm, which broadcast to `shape`. Laplace noise
            uses l1, Gaussian noise uses l2.
        draws : int
            Number of independent noises to average, by default 1.
        single : bool
            True if every element is a release of one number; by default the elements are
            coordinates of vectors.

        Returns
        -------
        ndarray of shape `shape`
        """
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(rng.normal(0.0, sd * l2 / np.sqrt(draws), shape))
        if single and draws == 1 and (number_noise := self._number_noise) is not None:
            return np.asarray(l1 * number_noise.draw(rng, shape))
        scale = l1 / self.pure_epsilon
        if draws == 1:
            return np.asarray(rng.laplace(0.0, scale, shape))
        # A sum of Laplace variables is a difference of two gamma variables.
        gammas = rng.standard_gamma(draws, shape) - rng.standard_gamma(draws, shape)
        return np.asarray(scale / draws * gammas)

    def noise_quantile(self, beta: float) -> float:
        """Return the 1 - beta quantile of the absolute noise of one number of sensitivity 1."""
        return float(self.noise_tail(np.asarray(beta) / 2, 1.0, 1.0))

    def noise_sd(self) -> float:
        """Return the standard deviation of the noise of one number of sensitivity 1.

        The variance of noise with quantiles q is the integral of q(e^-t / 2)^2 e^-t over t > 0,
        because a tail probability e^-t / 2 is uniform on (0, 1/2). Gaussian and Laplace noise have
        closed forms.
        """
        factor = current_noise_factor()
        if (sd := self._sd(1.0, 1.0)) is not None:
            return factor * sd
        if self._number_noise is None:
            return factor * float(np.sqrt(2)) / self.pure_epsilon
        end = min(60 + self.pure_epsilon, 700.0)  # e^-t would underflow
        t = (np.arange(QUANTILES) + 0.5) * end / QUANTILES
        squares = self._number_noise.upper_quantile(np.exp(-t) / 2) ** 2
        return factor * float(np.sqrt((squares * np.exp(-t)).sum() * end / QUANTILES))

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        """Return the point that the noise of one number exceeds with probability `upper`.

        Inside a `noise_times` block, which multiplies all noise by a factor, the point is
        multiplied by this factor, too.

        Parameters
        ----------
        upper : ndarray
            Probabilities, at most 1/2.
        l1, l2 : float
            Sensitivities in the l1 and in the l2 norm, equal for one number. If they differ, the
            noise is the noise of one coordinate of a vector.

        Returns
        -------
        ndarray
            Points, in the shape of `upper`.
        """
        factor = current_noise_factor()
        if (sd := self._sd(l1, l2)) is not None:
            return np.asarray(factor * (-sd * l2 * ndtri(upper)))
        if l1 == l2 and (number_noise := self._number_noise) is not None:
            return np.asarray(factor * (l1 * number_noise.upper_quantile(upper)))
        return np.asarray(factor * (-np.log(2 * upper) * l1 / self.pure_epsilon))

    @property
    def pure_epsilon(self) -> float:
        """Largest epsilon of a pure-DP mechanism that this budget can pay for."""
        if "epsilon" not in self.named_amounts:
            raise ValueError(f"a {self.notion} budget pays for no pure-DP mechanism")
        return self.named_amounts["epsilon"]

    @property
    def exponential_epsilon(self) -> float:
        """Largest epsilon of an exponential mechanism that this budget can pay for."""
        return self.pure_epsilon


@validated_positional
class PureDP(Budget):
    """Pure differential privacy (epsilon-DP), with Laplace or staircase noise (GV14).

    The scale of Laplace noise is the l1 sensitivity over epsilon; `noise_by` selects the noise.

    Parameters
    ----------
    epsilon : float > 0
        Bound on the log-likelihood ratio of a release on neighbouring datasets.
    noise_by : {'laplace', 'staircase'}
        Noise of a single number. Staircase noise has a smaller mean absolute value than Laplace
        noise. From epsilon = 3 on, the 0.9 quantile of its absolute value is smaller, too.
        Independent noise of vectors, histograms and averages of several noises is always Laplace
        noise.
    """

    epsilon: Positive
    noise_by: Literal["laplace", "staircase"] = "laplace"
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "pure"

    @property
    def _number_noise(self) -> NumberNoise | None:
        if self.noise_by == "laplace":
            return None
        return NumberNoise(
            partial(staircase.draw, epsilon=self.epsilon),
            partial(staircase.upper_quantile, epsilon=self.epsilon),
        )

    @cached_property
    def canonical_noise(self) -> CanonicalNoise:
        return tulap_noise(self.epsilon, 0.0)


@validated_positional
class ZCDP(Budget):
    """Zero-concentrated differential privacy (rho-zCDP), with Gaussian noise.

    The standard deviation of the noise is the l2 sensitivity over sqrt(2 rho).

    Parameters
    ----------
    rho : float > 0
        For every a > 1, the Renyi divergence of order a between the releases on neighbouring
        datasets is at most rho a.
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

    @cached_property
    def canonical_noise(self) -> CanonicalNoise:
        return gaussian_noise(self._sd(1.0, 1.0))

    @property
    def pure_epsilon(self) -> float:
        return pure_of_rho(self.rho)

    @property
    def exponential_epsilon(self) -> float:
        return float(np.sqrt(8 * self.rho))  # [1]_, Lemma 3.2, for this mechanism only

    def to_approx(self, delta: float) -> ApproxDP:
        """Return an (epsilon, delta)-DP budget that this budget implies, for a given delta.

        `approx_of_rho` computes its epsilon.
        """
        # A small rho may imply even (0, delta)-DP, but the epsilon of a budget must be positive.
        return self._approx(max(approx_of_rho(self.rho, delta), MIN_CONVERTED_EPSILON), delta)

    @classmethod
    @cache
    def within(cls, budget: ApproxDP) -> Self:
        """Return the zCDP budget with the largest rho that implies `budget`.

        `budget` is an (epsilon, delta)-DP budget.
        """
        from scipy.optimize import brentq

        def excess(log_rho: float) -> float:
            implied = approx_of_rho(float(np.exp(log_rho)), budget.delta)
            return max(implied, MIN_CONVERTED_EPSILON) - budget.epsilon

        # The lower end is below epsilon^2/(16 ln(1/delta)), which the classical conversion allows
        # for epsilon <= ln(1/delta). The result is near epsilon unless delta is large.
        low = np.log(min(budget.epsilon, 1.0) ** 2 / (100 * np.log(np.e / budget.delta)))
        high = np.log(budget.epsilon)
        while excess(high) < 0:
            if high >= np.log(MAX_AMOUNT):
                return cls(MAX_AMOUNT, neighbours=budget.neighbours)
            high = min(high + 1, np.log(MAX_AMOUNT))
        low = max(low, np.log(MIN_AMOUNT))
        if excess(low) > 0:
            raise ValueError(f"no rho >= {MIN_AMOUNT:g} is within {budget}")
        rho = float(np.exp(brentq(excess, low, high, xtol=1e-12)))
        return cls(rho, neighbours=budget.neighbours)


@validated_positional
class GDP(Budget):
    """Gaussian differential privacy (mu-GDP, DRS22), with Gaussian noise.

    The standard deviation of the noise is the l2 sensitivity over mu. A release is mu-GDP if it is
    at least as hard to tell neighbouring datasets apart as to tell N(0, 1) from N(mu, 1). The
    squares mu^2 add up under composition. Pure DP implies mu-GDP. mu-GDP implies (mu^2/2)-zCDP and
    (epsilon, delta)-DP, but neither zCDP nor (epsilon, delta)-DP implies mu-GDP.

    Parameters
    ----------
    mu : float > 0
        Distance between the means of the two normal distributions, in standard deviations.
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

    @cached_property
    def canonical_noise(self) -> CanonicalNoise:
        return gaussian_noise(1 / self.mu)

    @property
    def pure_epsilon(self) -> float:
        return pure_of_mu(self.mu)

    @property
    def exponential_epsilon(self) -> float:
        # The exponential mechanism costs as much as (epsilon/2)-DP, see `conversions`.
        return 2 * pure_of_mu(self.mu)

    @classmethod
    @cache
    def within(cls, budget: ApproxDP) -> Self:
        """Return the GDP budget with the largest mu that implies `budget`.

        `budget` is an (epsilon, delta)-DP budget. Among mu-GDP releases, N(0, 1/mu^2) noise at
        sensitivity 1 is the least private. So mu-GDP implies (epsilon, delta)-DP if and only if
        this noise is (epsilon, delta)-DP, and the largest mu is the reciprocal of `analytic_sd`.
        """
        mu = 1 / analytic_sd(budget.epsilon, budget.delta)
        if mu < MIN_AMOUNT or budget.epsilon < MIN_CONVERTED_EPSILON:
            raise ValueError(f"no mu >= {MIN_AMOUNT:g} is within {budget}")
        step = 1e-14  # `to_approx` of a large delta magnifies rounding errors of mu
        while cls(mu).to_approx(budget.delta).epsilon > budget.epsilon * (1 + ROUNDING):
            mu, step = mu * (1 - step), 2 * step
        return cls(mu, neighbours=budget.neighbours)

    def to_approx(self, delta: float) -> ApproxDP:
        """Return the (epsilon, delta)-DP budget with the smallest epsilon that mu-GDP implies."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return gaussian_delta(1 / self.mu, epsilon) - delta

        # The epsilon of a budget must be positive. With rho = mu^2/2,
        # rho + 2 sqrt(rho ln(1/delta)) is an upper bound (BS16, Proposition 1.3).
        if excess(MIN_CONVERTED_EPSILON) <= 0:
            return self._approx(MIN_CONVERTED_EPSILON, delta)
        upper = self.mu**2 / 2 + self.mu * np.sqrt(-2 * np.log(delta))
        smallest = brentq(excess, MIN_CONVERTED_EPSILON, upper, xtol=1e-15, rtol=1e-14)
        return self._approx(smallest, delta)


@validated_positional
class ApproxDP(Budget):
    """Approximate differential privacy, (epsilon, delta)-DP.

    Laplace noise and the exponential mechanism are epsilon-DP, so they leave their delta unused.
    Another step with Gaussian noise could use this delta, but would gain little. At epsilon = 1,
    doubling delta = 1e-6 multiplies the standard deviation of Gaussian noise by 0.966.

    Parameters
    ----------
    epsilon : float > 0
        Bound on the log-likelihood ratio of a release on neighbouring datasets, except for
        probability mass `delta`.
    delta : float in (0, 1)
        Probability mass to which the bound need not apply.
    noise_by : {'best', 'analytic', 'classical', 'ksu20', 'laplace', 'tulap'}
        Additive noise. Let l1 and l2 be the sensitivities in the l1 and in the l2 norm.

        - ``laplace``: Laplace noise of scale l1/epsilon.
        - ``analytic``: Gaussian noise with the smallest standard deviation at which it is
          (epsilon, delta)-DP (BW18).
        - ``best``: the noise with the smaller standard deviation, ``laplace`` or ``analytic``. For
          one number, this is Laplace noise up to delta = 2.5e-4 at epsilon = 0.01, and up to
          delta = 0.040 at epsilon = 1. (The 0.9 quantiles of the absolute noise are equal at
          delta = 2.6e-4 and 0.041.) For d coordinates with l1 = sqrt(d) l2, epsilon = 1 and
          delta = 1e-6, it is Laplace noise up to d = 8.
        - ``classical``: Gaussian noise with standard deviation sqrt(2 ln(1.25/delta)) l2/epsilon,
          for epsilon <= 1 only.
        - ``ksu20``: Gaussian noise with standard deviation sqrt(2 ln(2/delta)) l2/epsilon (KSU20,
          Lemma 2.8), for epsilon <= 1 only.
        - ``tulap``: Tulap noise for one number (AS18, AV23), bounded and canonical. If l1 and l2
          differ, the noise is that of ``best``. Averages of several noises, and vectors with
          l1 = l2, have Laplace noise.
    """

    epsilon: Positive
    delta: Delta
    noise_by: Literal["best", "analytic", "classical", "ksu20", "laplace", "tulap"] = "best"
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
        if self.noise_by == "tulap":  # noise of one number, which no Gaussian noise replaces
            laplace = bool(np.all(np.equal(l1, l2)))
        if self.noise_by in ("best", "tulap") and not laplace:  # once for all trials of a batch
            laplace = bool(np.all(np.sqrt(2) * l1 / self.epsilon <= self._gaussian * l2))
        return None if laplace else self._gaussian

    @property
    def _number_noise(self) -> NumberNoise | None:
        return self.canonical_noise if self.noise_by == "tulap" else None

    @cached_property
    def canonical_noise(self) -> CanonicalNoise:
        return tulap_noise(self.epsilon, self.delta)

    @cached_property
    def _gaussian(self) -> float:
        """Standard deviation of the Gaussian noise at l2 sensitivity 1."""
        factors = {"classical": 1.25, "ksu20": 2.0}
        if self.noise_by not in factors:
            return analytic_sd(self.epsilon, self.delta)
        return float(np.sqrt(2 * np.log(factors[self.noise_by] / self.delta)) / self.epsilon)


@validated_positional
class _BadEvent(Budget):
    """Cost of an event of probability at most delta in which no privacy guarantee holds."""

    delta: Annotated[float, Field(gt=0, lt=1)]
    neighbours: Relation = "replace"
    notion: ClassVar[str] = "bad_event"


@validated_positional
class NonPrivate(Budget):
    """Budget without privacy and noise, as a reference for the cost of privacy."""

    notion: ClassVar[str] = "none"

    def cost_of(self, other: Budget) -> tuple[float, ...]:
        return ()

    def noise(
        self, rng: np.random.Generator, shape: tuple[int, ...], *sensitivities: Any, **options: Any
    ) -> Floats:
        return np.zeros(shape)

    def noise_sd(self) -> float:
        return 0.0

    def noise_tail(self, upper: Floats, l1: float, l2: float) -> Floats:
        return np.zeros_like(upper)


def add_kind(spec: Any, where: str) -> Any:
    """Return the specification of a budget with its kind, if it is a mapping without a kind.

    The kind is the notion of privacy that has exactly the given privacy parameters. Raise
    ConfigError if there is none; the message begins with `where`.
    """
    if not isinstance(spec, Mapping) or {"kind", "_target_"} & set(spec):
        return spec
    given = [name for name in AMOUNTS if name in spec]
    for kind in (PureDP, ApproxDP, ZCDP, GDP):
        if given == [field.name for field in fields(kind) if field.name in AMOUNTS]:
            return {"kind": kind.kind_name(), **spec}
    found = ", ".join(map(str, spec)) or "nothing"
    raise ConfigError(
        f"{where}: {found}: no notion of privacy has these parameters; give epsilon, "
        "epsilon and delta, rho (zCDP) or mu (Gaussian DP), or a kind"
    )

"""Run queries inside a library's environment, and record the inputs of their mechanisms.

`replay` runs a query on a first dataset, keeps the releases of its mechanisms, and runs it on
further datasets with these releases frozen [1]_. Given equal releases, a value before noise may
differ by the stated sensitivity between neighbours, and the mechanisms may not differ. `worker`
loads this file, which needs the library and nothing of dpbench. All noise that later steps depend
on is seeded.

To add a query: write a function that runs it on records, and put its name into `QUERIES`.

.. [1] "Privacy in theory, bugs in practice: grey-box auditing of differential privacy libraries",
   arXiv 2602.17454, 2026.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any


class Recorder:
    """Record of the inputs of mechanisms; it can replay the releases of an earlier run.

    Parameters
    ----------
    earlier : sequence of dict
        Steps of an earlier run. A mechanism reuses the release of the step at its place there if
        the name and the number of values agree.

    Attributes
    ----------
    steps : list of dict
        For each mechanism its name, the values before noise, the stated sensitivity and its norm,
        and the release.
    """

    def __init__(self, earlier: Sequence[dict[str, Any]] = ()) -> None:
        self.steps: list[dict[str, Any]] = []
        self._earlier = earlier

    def add(
        self, name: str, values: Any, stated: Any, release: Callable[[], Any], norm: str = "l1"
    ) -> Any:
        """Record a mechanism, and return its release or the frozen release.

        Parameters
        ----------
        name : str
            Name of the mechanism.
        values : sequence of float
            Values before noise.
        stated : float
            Sensitivity that the mechanism states.
        release : callable
            Makes the release, without arguments.
        norm : {'l1', 'max'}
            Norm of the sensitivity.

        Returns
        -------
        object
            The release.
        """
        at, step = len(self.steps), {"mechanism": name, "values": [float(x) for x in values]}
        known = self._earlier[at] if at < len(self._earlier) else step
        same = known["mechanism"] == name and len(known["values"]) == len(step["values"])
        released = known["released"] if same and known is not step else release()
        self.steps.append(step | {"stated": float(stated), "norm": norm, "released": released})
        return released


# A query takes (n, d) records, an Ask of `worker`, and the Recorder of its mechanisms.
Query = Callable[[Any, Any, Recorder], object]


def numpy_mean(share: float, x: Any, ask: Any, tape: Recorder) -> object:
    """Release a hand-written mean that states a share of its sensitivity.

    Parameters
    ----------
    share : float > 0
        Stated sensitivity over the true sensitivity; below 1 the mean is not private.
    x : (n, d) array
        Records; the first column is used.
    ask : Ask
        Budget and bounds.
    tape : Recorder
        Records the mechanism.

    Returns
    -------
    float
    """
    import numpy as np

    low, high = ask.bounds
    mean, stated = np.clip(x[:, 0], low, high).mean(), share * (high - low) / len(x)
    noise = np.random.default_rng(0).laplace(0, stated / ask.epsilon)
    return tape.add("laplace", [mean], stated, lambda: mean + noise)


@contextmanager
def recorded_mechanisms(base: type, tape: Recorder) -> Iterator[None]:
    """Record `randomise` of all subclasses of `base`, with the sensitivities that they state.

    A mechanism called by another mechanism is recorded as a part of its caller. A mechanism that is
    given no value chooses by its utilities, which are recorded. A mechanism that states no
    sensitivity is recorded with an infinite sensitivity.

    Parameters
    ----------
    base : type
        Base class of the library's mechanisms.
    tape : Recorder
        Records them while the context is open.

    Yields
    ------
    None
    """
    found, inside = [base], [False]
    for one in found:  # `found` grows while it is read
        found += one.__subclasses__()
    own = {one: vars(one)["randomise"] for one in found if "randomise" in vars(one)}

    def recorded(randomise: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Any, value: Any = None) -> Any:
            if inside[0]:
                return randomise(self, value)
            inside[0] = True
            try:
                values = self.utility if value is None else [value]
                stated = getattr(self, "sensitivity", float("inf"))
                norm = "max" if value is None else "l1"
                name = type(self).__name__
                return tape.add(name, values, stated, lambda: randomise(self, value), norm)
            finally:
                inside[0] = False

        return method

    try:
        for one, randomise in own.items():
            one.randomise = recorded(randomise)  # type: ignore[attr-defined]
        yield
    finally:
        for one, randomise in own.items():
            one.randomise = randomise  # type: ignore[attr-defined]


def diffprivlib_query(name: str, x: Any, ask: Any, tape: Recorder) -> object:
    """Run a tool of diffprivlib, or fit a model of a feature and a target, with declared bounds.

    Parameters
    ----------
    name : str
        A name of `QUERIES` for diffprivlib.
    x : (n, d) array
        Records; models take a feature and a target.
    ask : Ask
        Budget and bounds.
    tape : Recorder
        Records the mechanisms.

    Returns
    -------
    object
        Result of the library.
    """
    from diffprivlib import models, tools
    from diffprivlib.mechanisms.base import DPMechanism

    middle, how = sum(ask.bounds) / 2, {"epsilon": ask.epsilon, "random_state": 0}
    with recorded_mechanisms(DPMechanism, tape):
        if name == "count_nonzero":
            return tools.count_nonzero(x[:, 0] > middle, **how)
        if name == "histogram":
            return tools.histogram(x[:, 0], bins=4, range=ask.bounds, **how)
        if name == "gaussian_nb":  # the two classes are declared as well
            model = models.GaussianNB(bounds=ask.bounds, **how)
            return model.partial_fit(x[:, :1], x[:, 1] > middle, classes=[False, True])
        if name.startswith("linear_regression"):
            bounds = {"bounds_X": ask.bounds, "bounds_y": ask.bounds}
            fitted = name == "linear_regression"
            model = models.LinearRegression(fit_intercept=fitted, **bounds, **how)
            return model.fit(x[:, :1], x[:, 1])
        return getattr(tools, name)(x[:, 0], bounds=ask.bounds, **how)


def opendp_query(name: str, x: Any, ask: Any, tape: Recorder) -> object:
    """Run a query of OpenDP's Context API; the size is declared if contributions are 2.

    OpenDP's mechanisms are not Python classes. A measurement is a transformation and a mechanism,
    which the API joins by ``>>``. The transformation gives the value before noise, and its map the
    sensitivity.

    Parameters
    ----------
    name : str
        A name of `QUERIES` for OpenDP.
    x : (n, d) array
        Records; the first column is used.
    ask : Ask
        Budget, bounds and contributions.
    tape : Recorder
        Records the mechanism.

    Returns
    -------
    object
        The release.
    """
    import numpy as np

    before, measurement = opendp_measurement(name, ask)
    values, stated = np.ravel(before(x[:, 0])), before.map(ask.contributions)
    mechanism, norm = ("noisy_max", "max") if name == "quantile" else ("laplace", "l1")
    return tape.add(mechanism, values, stated, lambda: measurement(x[:, 0]), norm)


@lru_cache(maxsize=64)
def opendp_measurement(name: str, ask: Any) -> tuple[Any, Any]:
    """Build a measurement, which is slow, and return its transformation and itself.

    Parameters
    ----------
    name : str
        A name of `QUERIES` for OpenDP.
    ask : Ask
        Budget, bounds, size and contributions.

    Returns
    -------
    before, measurement : tuple
        The transformation before the mechanism, and the whole measurement.
    """
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    sized = {"size": ask.size} if ask.contributions > 1 else {}
    context = dp.Context.compositor(
        data=np.zeros(ask.size),
        privacy_unit=dp.unit_of(contributions=ask.contributions),
        privacy_loss=dp.loss_of(epsilon=ask.epsilon),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), **sized),
    )
    joined: list[Any] = []
    join, query, (low, high) = dp.Transformation.__rshift__, context.query(), ask.bounds
    ends = np.linspace(low, high, 5).tolist()

    def recorded(self: Any, other: Any) -> Any:
        joined.append((self, join(self, other)))
        return joined[-1][1]

    dp.Transformation.__rshift__ = recorded
    try:
        if name == "count":
            found = query.count().laplace()
        elif name == "histogram":
            bins = query.find_bin(ends)
            found = bins.count_by_categories([*range(6)], null_category=False).laplace()
        elif name == "quantile":
            scores = query.quantile_score_candidates(ends, 0.5)
            found = scores.noisy_max(dp.max_divergence(), negate=True)
        else:
            found = getattr(query.clamp(ask.bounds), name)().laplace()
        measurement = found.resolve()
    finally:
        dp.Transformation.__rshift__ = join
    return [one for one, made in joined if isinstance(made, dp.Measurement)][-1], measurement


def _named(query: Callable[..., object], *names: str) -> dict[str, Query]:
    return {name: partial(query, name) for name in names}


# Queries that can be replayed, by library and name. diffprivlib's quantile is missing: it chooses
# among intervals between records, whose lengths (a base measure) have no sensitivity.
QUERIES: dict[str, dict[str, Query]] = {
    "numpy": {"mean": partial(numpy_mean, 1.0), "halved_mean": partial(numpy_mean, 0.5)},
    "diffprivlib": _named(
        diffprivlib_query, "mean", "sum", "var", "std", "nanmean", "nansum", "nanvar", "nanstd",
        "count_nonzero", "histogram", "linear_regression", "linear_regression_no_intercept",
        "gaussian_nb",
    ),
    "opendp": _named(opendp_query, "mean", "sum", "variance", "count", "histogram", "quantile"),
}  # fmt: skip


def replay(library: str, query: str, ask: Any, datasets: Sequence[Any]) -> dict[str, Any]:
    """Run a query on datasets; all runs but the first reuse the releases of the first.

    Parameters
    ----------
    library : str
        A key of `QUERIES`.
    query : str
        A name of a query of the library.
    ask : Ask
        Budget and bounds; its size is replaced by that of each dataset.
    datasets : sequence of (n, d) array
        Records of each run.

    Returns
    -------
    dict
        ``tapes``: the steps of each run, see `Recorder`. ``message``: for each run the exception
        that ended it, or "".
    """
    tapes: list[Recorder] = []
    message: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in datasets:
            tapes.append(Recorder(tapes[0].steps if tapes else ()))
            said = ""
            try:
                QUERIES[library][query](x, ask._replace(size=len(x)), tapes[-1])
            except Exception as error:  # noqa: BLE001, whatever a library raises
                said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            message.append(said)
    return {
        "tapes": [[_numbers(step) for step in tape.steps] for tape in tapes],
        "message": message,
    }


def _numbers(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step with its release converted to a list of numbers."""
    import numpy as np

    return step | {"released": np.ravel(step["released"]).astype(float).tolist()}


def unpacked(column: array[Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
    """Cut a flat array of numbers into arrays of these shapes.

    Parameters
    ----------
    column : array of float
        All numbers.
    shapes : sequence of (rows, width)
        Shapes of the datasets, in order.

    Returns
    -------
    list of (rows, width) array
    """
    import numpy as np

    ends = np.cumsum([rows * width for rows, width in shapes])[:-1]
    pieces = np.split(np.array(column), ends)
    return [x.reshape(shape) for x, shape in zip(pieces, shapes, strict=True)]

"""Run queries inside a library's environment, and record the inputs of their mechanisms.

A query is a use of the library, such as its variance; a mechanism adds noise to a value. `replay`
runs a query on a first dataset and keeps the releases of its mechanisms. It then runs the query on
further datasets with these releases frozen [1]_. On neighbouring datasets a value before noise may
then differ by at most the stated sensitivity. The sequence of mechanisms and the result of the
query may not differ.
worker.py loads this file, which needs the library and nothing of dpbench. All noise on which later
steps depend is seeded.

To add a query: write a function that runs it on records, and put its name into `QUERIES`.

.. [1] "Privacy in theory, bugs in practice: grey-box auditing of differential privacy libraries",
   arXiv 2602.17454, 2026.
"""

from __future__ import annotations

import sys
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any


class Recorder:
    """Record of the calls of mechanisms in one run; it can reuse the releases of an earlier run.

    A step of `steps` has the name of the ``mechanism``, the ``values`` before noise, the ``stated``
    sensitivity and its ``norm``, and the ``released`` values. The i-th call reuses the release of
    the i-th step in `earlier` if the name of the mechanism and the number of values agree.
    """

    def __init__(self, earlier: Sequence[dict[str, Any]] = ()) -> None:
        self.steps: list[dict[str, Any]] = []
        self._earlier = earlier

    def add(
        self, name: str, values: Any, stated: Any, release: Callable[[], Any], norm: str = "l1"
    ) -> Any:
        """Record a call of a mechanism, and return its release.

        If the earlier run has a matching call, the release of that call is returned instead.
        `values` are the values before noise. `stated` is the sensitivity that the mechanism states,
        in the norm ``l1`` or ``max``. `release` makes the release.
        """
        index, step = len(self.steps), {"mechanism": name, "values": [float(x) for x in values]}
        earlier = self._earlier[index] if index < len(self._earlier) else step
        reusable = earlier["mechanism"] == name and len(earlier["values"]) == len(step["values"])
        released = earlier["released"] if reusable and earlier is not step else release()
        self.steps.append(step | {"stated": float(stated), "norm": norm, "released": released})
        return released


# A query takes (n, d) records, an `Ask` of worker.py, and the `Recorder` of its mechanisms.
Query = Callable[[Any, Any, Recorder], object]


def numpy_mean(share: float, x: Any, ask: Any, tape: Recorder) -> object:
    """Release a hand-written clipped mean of the first column of the records, of shape (n, d).

    The mean may state too small a sensitivity. `share` > 0 is the stated over the true sensitivity;
    below 1 the mean is not private.
    """
    import numpy as np

    low, high = ask.bounds
    mean, stated = np.clip(x[:, 0], low, high).mean(), share * (high - low) / len(x)
    noise = np.random.default_rng(0).laplace(0, stated / ask.epsilon)
    return tape.add("laplace", [mean], stated, lambda: mean + noise)


@contextmanager
def record_mechanisms(base: type, tape: Recorder) -> Iterator[None]:
    """Record the calls of mechanisms of a library while the context is open.

    A mechanism is an instance of `base` or of a subclass. Calls of its method `randomise` are
    recorded. A call inside of another mechanism's call is not recorded separately. If `randomise`
    gets no value, the mechanism selects a candidate by utilities, and the utilities are recorded. A
    mechanism that states no sensitivity is recorded with an infinite sensitivity.
    """
    classes, inside = [base], [False]
    for mechanism in classes:  # the list grows while it is read, until all descendants are in it
        classes += mechanism.__subclasses__()
    originals = {
        mechanism: vars(mechanism)["randomise"]
        for mechanism in classes
        if "randomise" in vars(mechanism)
    }

    def with_recording(randomise: Callable[..., Any]) -> Callable[..., Any]:
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
        for mechanism, randomise in originals.items():
            mechanism.randomise = with_recording(randomise)  # type: ignore[attr-defined]
        yield
    finally:
        for mechanism, randomise in originals.items():
            mechanism.randomise = randomise  # type: ignore[attr-defined]


def diffprivlib_query(name: str, x: Any, ask: Any, tape: Recorder) -> object:
    """Run a statistic of diffprivlib, or fit one of its models, with declared bounds.

    The name is one of `QUERIES`. The records have shape (n, d). A model takes two columns, a
    feature and a target; a statistic takes the first.
    """
    from diffprivlib import models, tools
    from diffprivlib.mechanisms.base import DPMechanism

    middle, options = sum(ask.bounds) / 2, {"epsilon": ask.epsilon, "random_state": 0}
    with record_mechanisms(DPMechanism, tape):
        if name == "count_nonzero":
            return tools.count_nonzero(x[:, 0] > middle, **options)
        if name == "histogram":
            return tools.histogram(x[:, 0], bins=4, range=ask.bounds, **options)
        if name == "gaussian_nb":  # declare the classes, which may not depend on the records
            model = models.GaussianNB(bounds=ask.bounds, **options)
            return model.partial_fit(x[:, :1], x[:, 1] > middle, classes=[False, True])
        if name.startswith("linear_regression"):
            bounds = {"bounds_X": ask.bounds, "bounds_y": ask.bounds}
            intercept = name == "linear_regression"
            model = models.LinearRegression(fit_intercept=intercept, **bounds, **options)
            return model.fit(x[:, :1], x[:, 1])
        return getattr(tools, name)(x[:, 0], bounds=ask.bounds, **options)


def opendp_query(name: str, x: Any, ask: Any, tape: Recorder) -> object:
    """Run a query of OpenDP's Context API, and record the call of its mechanism.

    The name is one of `QUERIES`. The query takes the first column of the records, of shape (n, d).
    OpenDP's mechanisms are not Python classes. A measurement is a transformation followed by a
    mechanism; the API joins the two by ``>>``. The transformation gives the value before noise, and
    its stability map gives the sensitivity. If `ask.contributions` is 2, neighbours differ by
    replacement, and the number of records is declared.
    """
    import numpy as np

    before, measurement = opendp_measurement(name, ask)
    values, stated = np.ravel(before(x[:, 0])), before.map(ask.contributions)
    mechanism, norm = ("noisy_max", "max") if name == "quantile" else ("laplace", "l1")
    return tape.add(mechanism, values, stated, lambda: measurement(x[:, 0]), norm)


@lru_cache(maxsize=64)
def opendp_measurement(name: str, ask: Any) -> tuple[Any, Any]:
    """Build a measurement of OpenDP: a transformation of the records, followed by a mechanism.

    Return the transformation alone, and the whole measurement. The results are cached, because a
    measurement takes long to build. The name is one of `QUERIES`.
    """
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    declared = {"size": ask.size} if ask.contributions > 1 else {}
    context = dp.Context.compositor(
        data=np.zeros(ask.size),
        privacy_unit=dp.unit_of(contributions=ask.contributions),
        privacy_loss=dp.loss_of(epsilon=ask.epsilon),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), **declared),
    )
    joined: list[Any] = []
    join, query, (low, high) = dp.Transformation.__rshift__, context.query(), ask.bounds
    ends = np.linspace(low, high, 5).tolist()

    def record_join(self: Any, other: Any) -> Any:
        joined.append((self, join(self, other)))
        return joined[-1][1]

    dp.Transformation.__rshift__ = record_join
    try:
        if name == "count":
            query_with_noise = query.count().laplace()
        elif name == "histogram":
            bins = query.find_bin(ends)
            query_with_noise = bins.count_by_categories([*range(6)], null_category=False).laplace()
        elif name == "quantile":
            scores = query.quantile_score_candidates(ends, 0.5)
            query_with_noise = scores.noisy_max(dp.max_divergence(), negate=True)
        else:
            query_with_noise = getattr(query.clamp(ask.bounds), name)().laplace()
        measurement = query_with_noise.resolve()
    finally:
        dp.Transformation.__rshift__ = join
    return [
        transformation for transformation, result in joined if isinstance(result, dp.Measurement)
    ][-1], measurement


def pipeline_dp_query(name: str, x: Any, ask: Any, tape: Recorder) -> object:
    """Run a metric of PipelineDP, and record the calls of its Laplace mechanisms.

    The name is one of `QUERIES`. The metric takes the first column of the records, of shape (n, d).
    """
    from pipeline_dp import dp_computations

    original = dp_computations.dp_mechanisms

    class Laplace:
        def __init__(self, epsilon: float, sensitivity: float) -> None:
            self.epsilon, self.sensitivity = epsilon, sensitivity
            self._inner = original.LaplaceMechanism(epsilon=epsilon, sensitivity=sensitivity)

        def add_noise(self, value: float) -> Any:
            return tape.add(
                "Laplace", [value], self.sensitivity, lambda: self._inner.add_noise(value)
            )

    dp_computations.dp_mechanisms = SimpleNamespace(LaplaceMechanism=Laplace)
    try:  # the file of `Ask` is worker.py, under the name by which it was loaded
        prepare = sys.modules[type(ask).__module__].pipeline_dp
        return prepare(ask._replace(statistic=name))(x[:, 0].tolist())
    finally:
        dp_computations.dp_mechanisms = original


def _bind_names(query: Callable[..., object], *names: str) -> dict[str, Query]:
    """Return a dictionary that maps each name to a function, which calls `query` with the name.

    The name is the first argument of `query`. The function takes the other arguments.
    """
    return {name: partial(query, name) for name in names}


# Queries that can be replayed, by library and name. diffprivlib's quantile is missing: it chooses
# among intervals between records, whose lengths (a base measure) have no sensitivity.
QUERIES: dict[str, dict[str, Query]] = {
    "numpy": {"mean": partial(numpy_mean, 1.0), "halved_mean": partial(numpy_mean, 0.5)},
    "diffprivlib": _bind_names(
        diffprivlib_query, "mean", "sum", "var", "std", "nanmean", "nansum", "nanvar", "nanstd",
        "count_nonzero", "histogram", "linear_regression", "linear_regression_no_intercept",
        "gaussian_nb",
    ),
    "opendp": _bind_names(
        opendp_query, "mean", "sum", "variance", "count", "histogram", "quantile"
    ),
    "pipeline-dp": _bind_names(pipeline_dp_query, "mean", "sum", "variance", "count"),
}  # fmt: skip


def replay(library: str, query: str, ask: Any, datasets: Sequence[Any]) -> dict[str, Any]:
    """Run a query of a library on several datasets, and record the calls of its mechanisms.

    Mechanisms of later runs reuse the releases of the first run, so only their inputs can differ.
    The library and the query are keys of `QUERIES`. Each dataset has shape (n, d), and its size
    replaces the size in `ask`. In the result ``tapes`` has the recorded calls of each run, in the
    format of `Recorder`. The last step of a run without exception is named ``result`` and has the
    query's result as its release. ``message`` has for each run the exception that ended it, or "".
    """
    import numpy as np

    tapes: list[Recorder] = []
    message: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in datasets:
            tapes.append(Recorder(tapes[0].steps if tapes else ()))
            error_text = ""
            try:
                result = QUERIES[library][query](x, ask._replace(size=len(x)), tapes[-1])
                numbers = [part for value in _result_values(result) for part in np.ravel(value)]
                tapes[-1].steps.append({"mechanism": "result", "released": numbers})
            except Exception as error:  # noqa: BLE001, whatever a library raises
                error_text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            message.append(error_text)
    return {
        "tapes": [[_to_numbers(step) for step in tape.steps] for tape in tapes],
        "message": message,
    }


def _result_values(result: Any) -> Sequence[Any]:
    """Return the arrays of a query's result, for a model its fitted attributes."""
    if hasattr(result, "get_params"):  # scikit-learn names fitted attributes with a last underscore
        fitted = {name: value for name, value in vars(result).items() if name.endswith("_")}
        return [fitted[name] for name in sorted(fitted)]
    return result if isinstance(result, tuple) else [result]


def _to_numbers(step: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded call of a mechanism with its release as a list of numbers, for JSON."""
    import numpy as np

    return step | {"released": np.ravel(step["released"]).astype(float).tolist()}


def split_datasets(column: array[Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
    """Cut a flat array of numbers into several datasets of given shapes (rows, width).

    The array has one dataset after another, each row by row.
    """
    import numpy as np

    ends = np.cumsum([rows * width for rows, width in shapes])[:-1]
    pieces = np.split(np.array(column), ends)
    return [x.reshape(shape) for x, shape in zip(pieces, shapes, strict=True)]

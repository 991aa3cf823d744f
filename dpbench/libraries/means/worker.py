"""Read columns inside a library's environment, and answer with releases of mean or variance.

A column is a dataset of numbers. The command is ``python worker.py LIBRARY``; it needs the library
and nothing of dpbench. The first line of output is the library's version as JSON. A request is a
line of JSON, followed by the bytes of the column. The reply is a line of JSON with the result of
`answer`. A request with a ``query`` has several datasets, and its reply is the result of `replay`
of recorder.py. Output of the library goes to standard error.

To add a library: write a function below that prepares a release as the library's documentation
does, and put the function's name into `LIBRARIES`. Put its requirements into requirements.json, and
its neighbouring relation into mean.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from array import array
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

MAX_TEXT = 200  # characters kept of a library's message


class Ask(NamedTuple):
    """Parameters of the release of a mean or a variance, apart from the records."""

    epsilon: float  # budget under pure DP
    lower: float | None  # bounds on the records; None: the library finds bounds
    upper: float | None
    size: int  # number of records that is declared to libraries that take it
    contributions: int  # distance of neighbours in OpenDP; 2 if they differ by replacement
    statistic: str = "mean"  # or "variance", with the divisor n

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds (lower, upper) on the records; reading them raises ValueError if they are None."""
        if self.lower is None or self.upper is None:
            raise ValueError("bounds are needed")
        return self.lower, self.upper


# A release maps an array to a private statistic, or a list if the library's own examples use lists.
Release = Callable[[Any], Any]


def numpy(ask: Ask) -> Release:
    """Prepare a hand-written statistic with Laplace noise; the number of records is public."""
    import numpy as np

    rng, (low, high) = np.random.default_rng(), ask.bounds

    def release(x: Any) -> Any:
        x, sensitivity = np.clip(x, low, high), (high - low) / len(x)
        if ask.statistic == "variance":
            return x.var() + rng.laplace(0, sensitivity**2 * (len(x) - 1) / ask.epsilon)
        return x.mean() + rng.laplace(0, sensitivity / ask.epsilon)

    return release


def diffprivlib(ask: Ask) -> Release:
    """Prepare the private mean `tools.mean` of diffprivlib, or its variance `tools.var`.

    Without bounds diffprivlib warns, and uses the range of the data, without privacy.
    """
    from diffprivlib import tools

    bounds = None if ask.lower is None else ask.bounds
    statistic = tools.var if ask.statistic == "variance" else tools.mean
    return lambda x: statistic(x, epsilon=ask.epsilon, bounds=bounds)


def opendp(ask: Ask) -> Release:
    """Prepare a statistic by OpenDP's Context API, with a declared number of records.

    OpenDP builds a measurement, which takes long. So one measurement serves many releases.
    """
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=np.zeros(ask.size),  # only the size matters; the real data are passed at the release
        privacy_unit=dp.unit_of(contributions=ask.contributions),
        privacy_loss=dp.loss_of(epsilon=ask.epsilon),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), size=ask.size),
    )
    query = context.query().clamp(ask.bounds)
    query = query.variance(ddof=0) if ask.statistic == "variance" else query.mean()
    measurement: Release = query.laplace().resolve()
    return measurement


def python_dp(ask: Ask) -> Release:
    """Prepare `BoundedMean` or `BoundedVariance` of Google's library.

    Without bounds the library spends half of epsilon to find bounds.
    """
    from pydp.algorithms.laplacian import BoundedMean, BoundedVariance

    algorithm = BoundedVariance if ask.statistic == "variance" else BoundedMean
    ends = {} if ask.lower is None else {"lower_bound": ask.lower, "upper_bound": ask.upper}
    return lambda x: algorithm(epsilon=ask.epsilon, dtype="float", **ends).quick_result(x)


def pipeline_dp(ask: Ask) -> Release:
    """Prepare a statistic by PipelineDP, which runs in this process.

    Every person has one record, and all records are in one public partition.
    """
    import pipeline_dp as pdp

    low, high = ask.bounds
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda _: 0,
        value_extractor=lambda row: row[1],
    )
    parameters = pdp.AggregateParams(
        metrics=[getattr(pdp.Metrics, ask.statistic.upper())],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=low,
        max_value=high,
    )

    def release(x: list[float]) -> Any:
        budget = pdp.NaiveBudgetAccountant(total_epsilon=ask.epsilon, total_delta=0)
        engine = pdp.DPEngine(budget, pdp.LocalBackend())
        results = engine.aggregate(
            list(enumerate(x)), parameters, extractors, public_partitions=[0]
        )
        budget.compute_budgets()
        ((_, metrics),) = results
        return getattr(metrics, ask.statistic)

    return release


def tumult(ask: Ask) -> Release:
    """Prepare a private mean by Tumult Analytics: a Spark session with one private table.

    Neighbours differ by one added row.
    """
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable  # not another Python on the path
    low, high = ask.bounds
    spark, budget = SparkSession.builder.getOrCreate(), PureDPBudget(ask.epsilon)
    query = QueryBuilder("t").average("x", low=low, high=high, name="mean")

    def release(x: Any) -> Any:
        table = spark.createDataFrame(pd.DataFrame({"x": x}))
        session = Session.from_dataframe(budget, "t", table, protected_change=AddOneRow())
        return session.evaluate(query, budget).first()["mean"]

    return release


# Function that prepares a release; True if the release takes lists; package with the version.
LIBRARIES: dict[str, tuple[Callable[[Ask], Release], bool, str]] = {
    "numpy": (numpy, False, "numpy"),
    "diffprivlib": (diffprivlib, False, "diffprivlib"),
    "opendp": (opendp, False, "opendp"),
    "python-dp": (python_dp, True, "python-dp"),
    "pipeline-dp": (pipeline_dp, True, "pipeline-dp"),
    "tumult": (tumult, False, "tmlt.analytics"),
}


@lru_cache(maxsize=16)
def prepare_release(library: str, ask: Ask) -> Release:
    """Prepare the release of a library's statistic; a cache keeps it for later columns."""
    return LIBRARIES[library][0](ask)


def answer(library: str, ask: Ask, column: array[Any], repeats: int) -> dict[str, Any]:
    """Release a statistic of one column of float64 (type code 'd') or int64 ('q') several times.

    The releases are independent. In the result ``values`` has the releases, None where the library
    raised an exception. ``seconds`` has the time of each release; the first includes the
    preparation. ``message`` has type and text of the first exception, else of the first warning,
    else "".
    """
    x: Any = column.tolist()
    if not LIBRARIES[library][1]:
        import numpy as np

        x = np.array(x, dtype=np.int64 if column.typecode == "q" else np.float64)
    values: list[float | None] = []
    seconds: list[float] = []
    message: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(repeats):
            value, started = None, time.perf_counter()
            try:
                value = float(prepare_release(library, ask)(x))
            except Exception as error:  # noqa: BLE001, whatever a library raises
                message.append(_format_line(error))
            seconds.append(time.perf_counter() - started)
            values.append(value)
    texts = [_format_line(warning.message) for warning in caught]
    return {"values": values, "seconds": seconds, "message": ([*message, *texts] or [""])[0]}


def _format_line(error: object) -> str:
    """Return the type and text of an exception or warning as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:MAX_TEXT]


@lru_cache(maxsize=1)
def recorder() -> Any:
    """Import the file recorder.py, and return it as a Python module.

    The file is loaded by its path, because Python runs in isolated mode (``-I``) here. Then its
    folder is not on the import path.
    """
    spec = spec_from_file_location("recorder", Path(__file__).with_name("recorder.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def serve(library: str, source: BinaryIO, target: BinaryIO) -> None:
    """Write the library's version, then answer requests for releases until there are no more.

    Requests are read from the binary file `source`, and replies are written to `target`.
    """
    replies: Any = metadata.version(LIBRARIES[library][2])
    while True:
        target.write(json.dumps(replies).encode() + b"\n")
        target.flush()
        if not (line := source.readline()):
            return
        request = json.loads(line)
        column = array(request["type"])
        column.frombytes(source.read(request["bytes"]))
        ask = Ask(**request["ask"])
        if "query" in request:
            datasets = recorder().split_datasets(column, request["shapes"])
            replies = recorder().replay(library, request["query"], ask, datasets)
        else:
            replies = answer(library, ask, column, request["repeats"])


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as own:
        os.dup2(2, 1)
        serve(sys.argv[1], sys.stdin.buffer, own)

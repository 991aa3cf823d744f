"""Read columns inside a library's environment, and answer with releases of their mean.

Run as ``python worker.py LIBRARY``; it needs the library and nothing of dpbench. The first line of
output is the library's version. A request is a line of JSON, followed by the bytes of the column;
the reply is a line with the result of `answer`. Output of the library goes to standard error. A
request with a ``query`` has several datasets, and the reply is the result of `recorder.replay`.

To add a library: write a function below that prepares a release as the library's documentation
does, put its name into `LIBRARIES`, its requirements into ``requirements.json``, and its neighbours
into ``mean.py``.
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

MOST_TEXT = 200  # characters kept of a library's message


class Ask(NamedTuple):
    """Parameters of a release, apart from its column.

    Attributes
    ----------
    epsilon : float
        Budget.
    lower, upper : float or None
        Bounds on the records; None leaves them to the library.
    size : int
        Number of records that is declared to libraries which take it.
    contributions : int
        Number of records of one person that may differ, for OpenDP.
    """

    epsilon: float
    lower: float | None
    upper: float | None
    size: int
    contributions: int

    @property
    def bounds(self) -> tuple[float, float]:
        if self.lower is None or self.upper is None:
            raise ValueError("bounds are needed")
        return self.lower, self.upper


# Releases the mean of an array, or of a list if the library's own examples use lists.
Release = Callable[[Any], Any]


def numpy(ask: Ask) -> Release:
    """Prepare a hand-written release: clip, average, add Laplace noise; n is public."""
    import numpy as np

    rng, (low, high) = np.random.default_rng(), ask.bounds
    return lambda x: (
        np.clip(x, low, high).mean() + rng.laplace(0, (high - low) / (len(x) * ask.epsilon))
    )


def diffprivlib(ask: Ask) -> Release:
    """Prepare `tools.mean`; without bounds it takes them from the data, and warns."""
    from diffprivlib import tools

    bounds = None if ask.lower is None else ask.bounds
    return lambda x: tools.mean(x, epsilon=ask.epsilon, bounds=bounds)


def opendp(ask: Ask) -> Release:
    """Prepare the Context API with a declared size; building its measurement is slow."""
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
    measurement: Release = context.query().clamp(ask.bounds).mean().laplace().resolve()
    return measurement


def python_dp(ask: Ask) -> Release:
    """Prepare Google's `BoundedMean`; without bounds it spends half of epsilon on finding them."""
    from pydp.algorithms.laplacian import BoundedMean

    ends = {} if ask.lower is None else {"lower_bound": ask.lower, "upper_bound": ask.upper}
    return lambda x: BoundedMean(epsilon=ask.epsilon, dtype="float", **ends).quick_result(x)


def pipeline_dp(ask: Ask) -> Release:
    """Prepare PipelineDP in this process: one record per person, in one public partition."""
    import pipeline_dp as pdp

    low, high = ask.bounds
    about = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda _: 0,
        value_extractor=lambda row: row[1],
    )
    wanted = pdp.AggregateParams(
        metrics=[pdp.Metrics.MEAN],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=low,
        max_value=high,
    )

    def release(x: list[float]) -> Any:
        budget = pdp.NaiveBudgetAccountant(total_epsilon=ask.epsilon, total_delta=0)
        engine = pdp.DPEngine(budget, pdp.LocalBackend())
        found = engine.aggregate(list(enumerate(x)), wanted, about, public_partitions=[0])
        budget.compute_budgets()
        ((_, metrics),) = found
        return metrics.mean

    return release


def tumult(ask: Ask) -> Release:
    """Prepare a Spark session with one private table, protected against adding a row."""
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


# Function that prepares a release; True if it takes lists; package that has the version.
LIBRARIES: dict[str, tuple[Callable[[Ask], Release], bool, str]] = {
    "numpy": (numpy, False, "numpy"),
    "diffprivlib": (diffprivlib, False, "diffprivlib"),
    "opendp": (opendp, False, "opendp"),
    "python-dp": (python_dp, True, "python-dp"),
    "pipeline-dp": (pipeline_dp, True, "pipeline-dp"),
    "tumult": (tumult, False, "tmlt.analytics"),
}


@lru_cache(maxsize=16)
def prepared(library: str, ask: Ask) -> Release:
    """Return a prepared release, from the cache if it was prepared before.

    Parameters
    ----------
    library : str
        A key of `LIBRARIES`.
    ask : Ask
        Parameters of the release.

    Returns
    -------
    callable
    """
    return LIBRARIES[library][0](ask)


def answer(library: str, ask: Ask, column: array[Any], repeats: int) -> dict[str, Any]:
    """Release the mean of one column of float64 or int64.

    Parameters
    ----------
    library : str
        A key of `LIBRARIES`.
    ask : Ask
        Parameters of the release.
    column : array
        The records, of type code 'd' or 'q'.
    repeats : int
        Number of independent releases.

    Returns
    -------
    dict
        ``values``, None where the library raised; ``seconds`` of each release, the first including
        the preparation; ``message``: the first exception, else the first warning, with its type.
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
                value = float(prepared(library, ask)(x))
            except Exception as error:  # noqa: BLE001, whatever a library raises
                message.append(_line(error))
            seconds.append(time.perf_counter() - started)
            values.append(value)
    said = [_line(one.message) for one in caught]
    return {"values": values, "seconds": seconds, "message": ([*message, *said] or [""])[0]}


def _line(error: object) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:MOST_TEXT]


@lru_cache(maxsize=1)
def recorder() -> Any:
    """Load recorder.py by its path: the process is isolated, so it cannot be imported."""
    spec = spec_from_file_location("recorder", Path(__file__).with_name("recorder.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def serve(library: str, source: BinaryIO, target: BinaryIO) -> None:
    """Write the version, then answer requests until there are no more.

    Parameters
    ----------
    library : str
        A key of `LIBRARIES`.
    source, target : binary file
        Requests and replies.
    """
    replies: Any = metadata.version(LIBRARIES[library][2])
    while True:
        target.write(json.dumps(replies).encode() + b"\n")
        target.flush()
        if not (line := source.readline()):
            return
        what = json.loads(line)
        column = array(what["type"])
        column.frombytes(source.read(what["bytes"]))
        ask = Ask(**what["ask"])
        if "query" in what:
            datasets = recorder().unpacked(column, what["shapes"])
            replies = recorder().replay(library, what["query"], ask, datasets)
        else:
            replies = answer(library, ask, column, what["repeats"])


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as own:
        os.dup2(2, 1)
        serve(sys.argv[1], sys.stdin.buffer, own)

"""Batches of datasets and the statistics that estimators compute from them."""

from dpbench.samples.base import Sample
from dpbench.samples.binned import BinnedSample
from dpbench.samples.bins import Bins, Occupied
from dpbench.samples.counted import CountedSample
from dpbench.samples.dense import DenseSample
from dpbench.samples.people import PeopleSample, person_rows
from dpbench.samples.rows import Rows
from dpbench.samples.sparse import SparseSample

__all__ = [
    "BinnedSample", "Bins", "CountedSample", "DenseSample", "Occupied", "PeopleSample", "Rows",
    "Sample", "SparseSample", "person_rows",
]  # fmt: skip
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API

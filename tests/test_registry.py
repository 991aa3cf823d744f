"""Names of kinds, and mistakes in plug-ins: one line with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from dpbench import ConfigError, Estimate, Estimator, Ledger, PureDP
from dpbench.distributions import Distribution
from dpbench.estimators import ClippedMean
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.seeds import canonical
from tests.sweeps import sweep_of


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the kinds of a test after the test."""
    for kind in (Estimator, Distribution):
        monkeypatch.setattr(kind, "_registry", dict(kind._registry))


class Unchecked(ClippedMean):
    """Clipped mean with a parameter that is not a field, because `validated` is missing."""

    width: float = 1.0


UNCHECKED = Estimator._registry.pop("unchecked")


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "unchecked", "lower": 0, "upper": 1, "width": [1, 2]},
        {"_target_": f"{__name__}.Unchecked", "lower": 0, "upper": 1},
        Unchecked(lower=0, upper=1),
    ],
    ids=["kind", "_target_", "object"],
)
def test_validated_is_forgotten(spec: Any) -> None:
    """Check the refusal, because fields name streams, and noise would be shared otherwise."""
    Estimator._registry["unchecked"] = UNCHECKED
    line = f"sweep.estimators.mine: {__name__}.Unchecked does not check its parameters; write"
    with pytest.raises(ConfigError, match=f"{line} @validated above the class"):
        sweep_of(estimators={"mine": spec})


def test_a_dataclass_that_checks_nothing() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Plain(Estimator):
        width: float = 1.0

        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            raise NotImplementedError

    for spec in ({"kind": "plain"}, Plain()):
        with pytest.raises(ConfigError, match="Plain does not check its parameters; write @val"):
            sweep_of(estimators={"mine": spec})


def test_a_name_that_is_taken() -> None:
    with pytest.raises(ConfigError) as error:
        type("ClippedMean", (Estimator,), {"__module__": "mine", "lower": 0.0})
    assert str(error.value) == (
        "mine.ClippedMean: the name 'clipped_mean' is taken by dpbench.estimators.clipped."
        "ClippedMean; write class ClippedMean(..., kind='another_name')"
    )
    assert Estimator.kinds()["clipped_mean"] is ClippedMean

    class Other(Estimator, kind="another_name"):
        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            raise NotImplementedError

    assert Estimator.kinds()["another_name"] is Other
    again: list[type[Any]] = [Other]
    for _ in range(2):  # a notebook may run a cell again

        @validated
        class Empty(ClippedMean):
            pass

        assert Estimator.kinds()["empty"] is Empty is not again[-1]
        again.append(Empty)


def test_a_pickle_leaves_the_class_that_is_there() -> None:
    """Check pickles by value, as of a script, whose copy of the class must not be registered."""

    @validated
    class Mine(Estimator, kind="special"):
        factor: float = 1.0

        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            raise NotImplementedError

    @validated
    class Narrow(ClippedMean):
        pass

    @validated
    class Median(ClippedMean, kind="mine_too"):  # a name that is taken but for its kind
        pass

    cloudpickle = pytest.importorskip("cloudpickle")  # comes with dask
    for one in (Mine(factor=2.0), Narrow(lower=0, upper=1), Median(lower=0, upper=1)):
        assert cloudpickle.loads(cloudpickle.dumps(one)) == one
    known = Estimator.kinds()
    assert [known.get(name) for name in ("special", "mine", "narrow")] == [Mine, None, Narrow]


def test_abstract_and_private_classes_have_no_name() -> None:
    type("_Private", (ClippedMean,), {})
    type("Abstract", (Estimator,), {})
    assert not {"abstract", "_private", "private", "one_dataset"} & set(Estimator.kinds())
    assert "location_scale" not in Distribution.kinds()


def test_what_lacks_a_method_is_refused_by_its_name() -> None:
    """Check estimators in their registry, and distributions by way of families."""
    for base, missing, section in (
        (Estimator, "estimate", "estimators"),
        (Distribution, "mean, moment, sample", "families"),
    ):
        validated(type("Half", (base,), {"__module__": "mine", "width": 1}))
        for key, name in (("kind", "half"), ("_target_", "mine.Half")):
            entries: Any = {section: {"own": {key: name}}}
            with pytest.raises(ConfigError) as caught:
                sweep_of(**entries)
            line = f"sweep.{section}.own.{key}: {name!r}: mine.Half does not define {missing}"
            assert str(caught.value) == line


def test_a_class_by_its_path() -> None:
    for target in ("dpbench.estimators.ClippedMean", "dpbench.estimators.clipped.ClippedMean"):
        assert Estimator.find({"_target_": target}) is ClippedMean
        assert Estimator.find({"_target_": target.replace("estimators", "estimator")}) is None
        assert Distribution.find({"_target_": target}) is None


def test_equal_names_are_equal_parameters() -> None:
    one = ClippedMean(lower=0, upper=1)
    assert canonical(one) == canonical(ClippedMean(lower=0.0, upper=np.float64(1)))
    assert canonical(one) != canonical(ClippedMean(lower=0, upper=2))
    assert canonical(one) == 'ClippedMean{"lower": 0.0, "upper": 1.0}'
    with pytest.raises(AttributeError, match="assign"):
        one.lower = 5.0  # type: ignore[misc]


@validated
class _Beside:
    limit: Annotated[float, Field(lt=1234567.5)]


PURE: Any = PureDP  # Any, because mypy would reject wrong arguments
CLIPPED: Any = ClippedMean


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: PURE(eps=1), "eps: no such key; did you mean 'epsilon'? choose from epsilon,"),
        (lambda: PURE(-1), "epsilon: -1: input should be greater than or equal to 1e-12"),
        (lambda: CLIPPED(low=0), "low: no such key; did you mean 'lower'? choose from lower,"),
        (lambda: CLIPPED(0, 1), "ClippedMean: 0: name it, of lower, upper"),
        (lambda: CLIPPED(lower=2, upper=1), "ClippedMean: upper must exceed lower"),
        (lambda: CLIPPED(lower="x", upper=1), "lower: 'x': "),
        (
            lambda: Estimator.build({"_target_": "dpbench.estimators.ClipedMean"}, "one"),
            "one._target_: 'dpbench.estimators.ClipedMean': refused; did you mean 'ClippedMean'? ",
        ),
        (lambda: _Beside(limit=1234568), "limit: 1234568: input should be less than 1234567.5"),
    ],
)
def test_what_python_gives_is_refused_in_a_line(make: Callable[[], Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(line)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # this line alone

"""Questions that cannot be answered, in a line."""

from __future__ import annotations

import re

import pytest

from dpbench.cli.main import run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("n=0", "n: 0: "),
        ("n=many", "n: 'many': "),
        ("epsilon=-1", "epsilon: -1"),
        ("epsilon=1 rho=1", "rho: 1.0: give one of epsilon, rho, mu"),
        ("rho=1 delta=1e-6", "delta: 1e-06: goes with epsilon"),
        ("eps=1", "eps: no such key of plan; did you mean 'epsilon'? choose from n"),
        ("neighbours=swap", "neighbours: 'swap': "),
        ("epsilon=1 lower=5 upper=1", "upper: 1.0: must exceed lower, 5.0"),
        ("epsilon=1 lower=5", "upper: this key is required"),
        ("epsilon=1 law=cauchy", "law: 'cauchy': choose from bernoulli, beta, gaussian"),
        ("epsilon=1 law=gausian", "law: 'gausian': did you mean 'gaussian'? choose from"),
        ("epsilon=1 law=gaussian law.scale=-1", "law.scale: -1: "),
        ("epsilon=1 law=gaussian lower=3", "lower: 3.0: the mean of law= is 0"),
        ("epsilon=1 law=bernoulli law.p=1", "law: all records are 1"),
        ("epsilon=1 law.scale=1", "law.scale: give law=NAME, too"),
        ("epsilon=1 lower=0 upper=1 k=2", "scale: this key is required with k"),
        ("epsilon=1 law=gaussian k=2", "k: give one of law, data and k"),
        ("epsilon=1 k=1 lower=0 upper=1", "k: 1: "),
        ("epsilon=1 law=gaussian scale=2", "scale: 2.0: goes with k"),
        ("epsilon=1 data=no.csv column=a", "data: 'no.csv': no such file"),
        ("epsilon=1 data=galton_heights.csv", "column: this key is required with data="),
        ("lower=0 upper=1", "epsilon: this key is required"),
        ("epsilon=0.1 law=gaussian neighbours=add_remove", "n: 100: too few records"),
        ("epsilon=1 lower=0 upper=1 lower=1", "lower: given twice"),
        ("epsilon=1 target=median", "target: 'median': "),
        ("epsilon=1 target=variance lower=0", "upper: this key is required with target=variance"),
        ("epsilon=1 target=variance lower=0 upper=1 k=2 scale=1", "k: 2: not available with"),
        ("n=1 target=variance", "n: 1: one record has no variance"),
        (
            "epsilon=1 target=variance lower=0 upper=9 law=pareto law.tail_index=1.5",
            "law: the variance is inf; a plan needs a finite one",
        ),
        (
            "epsilon=1 target=variance lower=2 upper=3 law=beta law.a=1 law.b=1",
            "upper: 3: no record",
        ),
        ("epsilon=.02 target=variance lower=0 upper=1 neighbours=add_remove", "n: 100: too few"),
        (
            "epsilon=1 target=variance lower=0 upper=1e200",
            "upper: 1e+200: a variance needs a width",
        ),
        ("epsilon=1 target=variance lower=1e16 upper=10000000000000002", "upper: 1e+16: a vari"),
        ("table=none.yaml", "n: 100: not used with table="),
        ("epsilon 1", "plan: 'epsilon': one word too many; expected: plan [n=] [epsilon=]"),
        (
            "epsilon=1 k=2 lower=0 upper=1 neighbours=add_remove",
            "neighbours: 'add_remove': not available",
        ),
    ],
)
def test_what_cannot_be_used_is_said_in_a_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words.split() if words.startswith("n=") else ["n=100", *words.split()]
    if words.startswith("n="):
        given += ["epsilon=1", "lower=0", "upper=1"]
    assert run(["plan", *given]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert re.match(re.escape(f"dpbench: {told}"), found.err)

"""The pages of all finished runs, as one."""

from __future__ import annotations

from tests.bench import Bench, unusable


def test_all_runs_on_one_page(bench: Bench) -> None:
    unusable(bench.raw("report=all"), "report: 'all'", "'results'")
    # By default a run's folder is named by the sweep.
    assert bench.raw("--config-dir", "conf", "sweep=tiny", "n_jobs=1", "trials=4").code == 0
    bench.done("seed=1", "out=results/seed1", "trials=4")
    (bench.folder / "results" / "notes").mkdir()  # is no run
    found = bench.raw("report=all")
    assert found == (0, "2 runs on one page: results/report.html\n", "")
    page = bench.read("report.html", "results")
    assert bench.raw("report=all").code == 0
    assert bench.raw("report=all", "plugins=[nope]").code == 0  # nothing is loaded
    assert bench.read("report.html", "results") == page
    for word in ("track=check", "trials=5", "rerun=f0123456789n10"):
        unusable(bench.raw("report=all", word), word.partition("=")[0], "runs nothing")
    for content in (b"a,b\n1,2\n", b"claim\n\xff\n"):
        (bench.folder / "results" / "seed1" / "claims.csv").write_bytes(content)
        files = bench.files()
        unusable(bench.raw("report=all"), "report: 'results/seed1'", "cannot be read")
        assert bench.files() == files

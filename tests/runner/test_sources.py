def test_a_file_that_a_plug_ins_estimator_names_is_part_of_it(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))

    class Weighed(EmpiricalMean):
        files: ClassVar[tuple[str, ...]] = ("weights.bin",)

    Weighed.__module__ = "mine_too"
    found = set[str]()
    for weights in (None, b"1", b"2"):
        if weights is not None:
            (files / "hers/weights.bin").write_bytes(weights)
        found.add(Origin.of(names=["mine_too"]).source)
    assert len(found) == 3

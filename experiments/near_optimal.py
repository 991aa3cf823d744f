"""How far the best estimators are from the limit, see near_optimal.yaml."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("near_optimal"))

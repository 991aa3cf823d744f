"""The figures of bias, see bias.yaml: ``python -m experiments.bias``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("bias"))

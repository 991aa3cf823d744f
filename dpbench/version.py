"""The version, alone: what the package imports may ask for it."""

__version__ = "0.1.0"

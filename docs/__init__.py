"""The documentation: its pages, and what writes those that are read off the package."""

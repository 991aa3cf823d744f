"""Output: terminal text, files, the folder of a run, and the style and axes of figures."""

"""Where anything leaves: terminal, files, a run's folder, the style and axes of figures."""

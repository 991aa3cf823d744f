"""Other libraries' private means, each in an environment and a process of its own."""

"""The machine: memory, threads, compiled code, progress bars, optional packages, clusters."""

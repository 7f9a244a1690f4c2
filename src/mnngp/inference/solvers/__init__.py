"""Solvers of the linear systems behind a posterior, all with one interface (``interface``)."""

"""The paper's experiments: protocols, sweeps, stores of results, tables and reports."""

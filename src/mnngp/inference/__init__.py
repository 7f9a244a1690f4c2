"""From kernel matrices to posteriors: exact inference that says what it did."""

from mnngp.inference.evidence import log_evidence_gradient
from mnngp.inference.flow import GradientFlow
from mnngp.inference.posterior import LeaveOneOut, Posterior
from mnngp.inference.solvers.cholesky import Report
from mnngp.inference.solvers.conjugate_gradients import ConjugateGradients, IterationReport
from mnngp.inference.solvers.dask_conjugate_gradients import ClusterConjugateGradients

__all__ = [
    "ClusterConjugateGradients",
    "ConjugateGradients",
    "GradientFlow",
    "IterationReport",
    "LeaveOneOut",
    "Posterior",
    "Report",
    "log_evidence_gradient",
]

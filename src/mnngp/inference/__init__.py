"""From kernel matrices to posteriors: exact inference that says what it did."""

from mnngp.inference.blocked import ClusterCholesky
from mnngp.inference.cluster import ClusterConjugateGradients
from mnngp.inference.evidence import log_evidence_gradient
from mnngp.inference.factor import Report
from mnngp.inference.flow import GradientFlow
from mnngp.inference.large import ConjugateGradients, IterationReport
from mnngp.inference.posterior import LeaveOneOut, Posterior

__all__ = [
    "ClusterCholesky",
    "ClusterConjugateGradients",
    "ConjugateGradients",
    "GradientFlow",
    "IterationReport",
    "LeaveOneOut",
    "Posterior",
    "Report",
    "log_evidence_gradient",
]

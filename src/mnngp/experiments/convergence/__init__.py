"""The convergence study: finite maxout networks beside the Gaussian process that they become.

It needs PyTorch (``pip install "mnngp[torch]"``).
"""

from mnngp.finite import require_torch

require_torch()

from mnngp.experiments.convergence.channels import (  # noqa: E402
    image_agreement,
    image_study,
    image_tangent_agreement,
)
from mnngp.experiments.convergence.covariances import (  # noqa: E402
    agreement,
    exact_kurtosis,
    tangent_agreement,
)
from mnngp.experiments.convergence.study import (  # noqa: E402
    Study,
    convergence_study,
    descent_agreement,
)

__all__ = [
    "Study",
    "agreement",
    "convergence_study",
    "descent_agreement",
    "exact_kurtosis",
    "image_agreement",
    "image_study",
    "image_tangent_agreement",
    "tangent_agreement",
]

"""What the tests of kernels share."""

from mnngp import (
    GELU,
    Abs,
    Erf,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.experiments.tabulated import TabulatedMaxout

MIXED = [Maxout(4), Maxout(1), LeakyReLU(0.3), Abs(), ReLU()]
SMOOTH = [Maxout(3), Erf(), GELU(), Maxout(2)]
KERNELS = [
    MaxoutKernel(1, 2),
    MaxoutKernel(3, 4, weight_var=0.8, bias_var=0.3),
    MaxoutKernel(3, 4, weight_var=0.8, bias_var=0.3, kind="ntk"),
    MaxoutKernel(2, 1, bias_var=0.0),  # a linear network
    # no bias: a function of the angle alone
    MaxoutKernel(7, 64, weight_var=0.1756, bias_var=0.0, kind="ntk"),
    MaxoutKernel(2, 3, weight_var=[0.5, 1.0, 2.0], bias_var=[0.1, 0.2, 0.0]),
    MaxoutKernel(3, 3, weight_var_bounds="fixed", bias_var_bounds="fixed"),
    NetworkKernel(MIXED, weight_var=0.9, bias_var=0.2),
    NetworkKernel(MIXED, weight_var=0.9, bias_var=0.2, kind="ntk"),
    NetworkKernel([Tanh()] * 2, weight_var=1.5, bias_var=0.1),
    NetworkKernel(SMOOTH, weight_var=0.9, bias_var=0.2),
    NetworkKernel(SMOOTH, weight_var=0.9, bias_var=0.2, kind="ntk"),
    NetworkKernel([TabulatedMaxout(3, n_grid=201, n_rho=101)] * 2, weight_var=0.9, bias_var=0.2),
]

import numpy as np
import pytest

from mnngp import GELU, Abs, Erf, LeakyReLU, Maxout, MaxoutKernel, NetworkKernel, ReLU, Tanh

KERNELS = [
    MaxoutKernel(1, 3),
    MaxoutKernel(5, 4, weight_var=4.83, bias_var=0.34),
    MaxoutKernel(21, 2, weight_var=0.8, bias_var=0.1),
    MaxoutKernel(3, 4, weight_var=[0.5, 1.0, 0.8, 1.5], bias_var=[0.1, 0.5, 0.01, 0.2]),
    NetworkKernel(
        [Maxout(2), Maxout(1), LeakyReLU(0.3), Abs(), ReLU()], weight_var=0.9, bias_var=0.2
    ),
    NetworkKernel([Tanh(), Tanh()], weight_var=1.5, bias_var=0.1),
    # real degrees
    NetworkKernel([Tanh(), GELU()], weight_var=[30.0, 200.0, 2.0], bias_var=[0.1, 0.5, 0.1]),
    NetworkKernel([Erf(), GELU(), Erf()], weight_var=[1e4, 1e5, 50.0, 1.0], bias_var=0.3),
    NetworkKernel(
        [Maxout(3), Erf(), GELU(), Maxout(2)], weight_var=0.9, bias_var=[0.2, 0.1, 0.1, 0.05, 0.3]
    ),
]


def points():
    X = np.random.default_rng(0).normal(size=(16, 5))
    X[3], X[5], X[7] = X[4], -X[6], 0.0
    X[8] *= 1e-300
    X[9] = 2.0 * X[10]
    return X


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_against_central_differences(kernel, kind):
    """Measured worst: 2e-10, the rounding of the differences."""
    kernel = kernel.clone_with_theta(kernel.theta)
    kernel.kind = kind
    X, step = points(), 1e-3
    _, gradient = kernel(X, eval_gradient=True)
    assert np.isfinite(gradient).all()
    for index, unit in enumerate(np.eye(len(kernel.theta))):
        at = {k: kernel.clone_with_theta(kernel.theta + k * step * unit)(X) for k in (-2, -1, 1, 2)}
        central = (8.0 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12.0 * step)
        np.testing.assert_allclose(
            gradient[..., index], central, rtol=1e-6, atol=1e-7 * np.abs(central).max()
        )


def test_order_is_that_of_theta():
    kernel = MaxoutKernel(2, 3)
    assert [h.name for h in kernel.hyperparameters] == ["bias_var", "weight_var"]
    X = points()
    _, both = kernel(X, eval_gradient=True)
    _, weight = MaxoutKernel(2, 3, bias_var_bounds="fixed")(X, eval_gradient=True)
    _, bias = MaxoutKernel(2, 3, weight_var_bounds="fixed")(X, eval_gradient=True)
    np.testing.assert_array_equal(both, np.concatenate([bias, weight], axis=2))


def test_a_zero_bias_is_fixed():
    kernel = MaxoutKernel(2, 3, bias_var=0.0)
    assert [h.name for h in kernel.hyperparameters if not h.fixed] == ["weight_var"]
    assert np.isfinite(kernel.theta).all()
    # K is a power of the weight variance: three affine maps without bias
    K, gradient = kernel(points(), eval_gradient=True)
    np.testing.assert_allclose(gradient[..., 0], 3.0 * K, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_single_precision(kind):
    X = points()
    for kernel in (
        MaxoutKernel(5, 4, weight_var=0.7, bias_var=0.3, kind=kind),
        NetworkKernel([Tanh()] * 2, kind=kind),
    ):
        _, double = kernel(X, eval_gradient=True)
        kernel.dtype = "float32"
        _, single = kernel(X, eval_gradient=True)
        np.testing.assert_allclose(single, double, atol=2e-5 * np.abs(double).max())

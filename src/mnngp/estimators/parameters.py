"""Checks of what an estimator is made with and fitted to; each error names the argument."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError
from mnngp.estimators.features import NORMALIZATIONS
from mnngp.inference.image_networks import ImageSpace
from mnngp.inference.search_space import (
    MAXOUT_PARAMETERS,
    MaxoutSpace,
    SearchSpace,
    VarianceSpace,
)
from mnngp.inference.solvers import by_name
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network import as_dtype

_WEIGHTS = 1e-100, 1e100  # sample weights that are not zero


def search_space(estimator: Any) -> SearchSpace:
    """Check all parameters, before any work; the kernels that they leave open."""
    if estimator.image_shape is not None:
        space: SearchSpace = _given_images(estimator)
    else:
        given = _given_maxout if estimator.kernel is None else _given_kernel
        space = given(estimator)
    largest = _validation.LARGEST_VARIANCE
    if estimator.noise_var is not None:
        _validation.real("noise_var", estimator.noise_var, low=0.0, high=largest)
    if estimator.signal_var is not None:
        _validation.real("signal_var", estimator.signal_var, low=0.0, high=largest, strict=True)
    _validation.positive_int("max_trials", estimator.max_trials)
    _validation.real("fit_seconds", estimator.fit_seconds, low=0.0, strict=True)
    jobs = estimator.n_jobs
    if jobs is not None and (jobs == 0 or not isinstance(jobs, int | np.integer)):
        raise InputError(
            f"n_jobs must be None, a number of threads, or -1 for all cores, got {jobs!r}"
        )
    if not isinstance(estimator.random_state, np.random.RandomState):
        seed_of(estimator.random_state)
    if estimator.progress not in (None, True, False):
        raise InputError(f"progress must be True, False or None, got {estimator.progress!r}")
    by_name.check(estimator.solver)
    _validation.one_of("features", estimator.features, ("auto", "linear", "embedding"))
    if estimator.features == "embedding" and not isinstance(space, MaxoutSpace):
        name = "image_shape" if estimator.image_shape is not None else "kernel"
        raise InputError(
            f"features='embedding' and {name} cannot both be given: a kernel brings its own, such "
            f"as NetworkKernel([Embedding(1.0), ...]), got {name}={getattr(estimator, name)!r}"
        )
    if estimator.normalize not in NORMALIZATIONS:
        raise InputError(
            "normalize must be 'standard' (columns), 'sphere' (rows) or None, "
            f"got {estimator.normalize!r}"
        )
    return space


def _given_maxout(estimator: Any) -> SearchSpace:
    given = {
        name: getattr(estimator, name)
        for name in MAXOUT_PARAMETERS
        if getattr(estimator, name) is not None
    }
    for name in ("weight_var", "bias_var"):
        if np.ndim(given.get(name, 0.0)):
            if estimator.depth is None:
                raise InputError(f"{name} has a value for each layer, so depth must be given, too")
            given[name] = tuple(given[name])
    space = MaxoutSpace(given, estimator.dtype)
    space.fitted(space.default())  # raises where a value is not allowed
    return space


def _given_images(estimator: Any) -> ImageSpace:
    usual = {"kernel": None, **dict.fromkeys(MAXOUT_PARAMETERS), "normalize": "standard"}
    for name, value in usual.items():
        if getattr(estimator, name) != value:
            raise InputError(
                f"image_shape and {name} cannot both be given: what suits the images is chosen "
                f"(for one network use kernel=NetworkKernel(..., image_shape=...) alone), got "
                f"image_shape={estimator.image_shape!r} and {name}={getattr(estimator, name)!r}"
            )
    return ImageSpace(estimator.image_shape, as_dtype(estimator.dtype).name)


def image_rows(image_shape: Any, X: Any) -> Any:
    """Arrays of images (n, height, width, channels) as rows of their pixels; anything else as it
    is.
    """
    shape = tuple(getattr(X, "shape", ()))[1:]
    whole = _validation.image_shape(image_shape, False)
    if whole is None or len(shape) < 2:
        return X
    if shape not in (whole, whole[:2] if whole[2] == 1 else whole):
        raise InputError(_images_of(whole, (len(X), *shape)))
    return np.asarray(X).reshape(len(X), -1)


def check_pixels(image_shape: Any, X: Matrix) -> None:
    """Raise if rows have not as many columns as an image has pixels."""
    whole = _validation.image_shape(image_shape, False)
    if whole is not None and X.shape[1] != math.prod(whole):
        raise InputError(_images_of(whole, X.shape))


def _images_of(whole: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return (
        f"X must have the shape (n, {', '.join(map(str, whole))}) or (n, {math.prod(whole)}), as "
        f"image_shape says, got {shape}"
    )


def _given_kernel(estimator: Any) -> SearchSpace:
    kernel = estimator.kernel
    if not isinstance(kernel, DeepKernel):
        raise InputError(
            "kernel must be a MaxoutKernel or a NetworkKernel of mnngp (noise_var and signal_var "
            f"are arguments of their own), got {kernel!r}"
        )
    for name in MAXOUT_PARAMETERS:
        if getattr(estimator, name) is not None:
            raise InputError(
                f"kernel and {name} cannot both be given: the kernel says it already, got "
                f"kernel={kernel!r} and {name}={getattr(estimator, name)!r}"
            )
    space = VarianceSpace(kernel)  # raises where a parameter was set to what is not allowed
    if estimator.dtype != "float64" and np.dtype(estimator.dtype) != np.dtype(kernel.dtype):
        raise InputError(
            "kernel and dtype cannot both be given: the kernel's counts, got "
            f"kernel.dtype={kernel.dtype!r} and dtype={estimator.dtype!r}"
        )
    return space


def seed_of(random_state: Any) -> Any:
    """What NumPy's generators take, of what scikit-learn's ``random_state`` may be."""
    if random_state is None:
        return None
    try:
        generator = check_random_state(random_state)
    except ValueError as error:
        raise InputError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState, got "
            f"{random_state!r}"
        ) from error
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(generator.randint(2**31 - 1))


def sample_weights(sample_weight: Any, X: Matrix) -> Vector | None:
    """Weights as an array, of which one is above zero at least."""
    if sample_weight is None:
        return None
    weight = np.asarray(
        _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    )
    low, high = _WEIGHTS
    odd = (weight != 0.0) & ((weight < low) | (weight > high))
    if odd.any():
        raise InputError(
            f"sample_weight must be 0, or from {low:g} to {high:g}, got {weight[odd][0]:g}"
        )
    if not weight.any():
        raise InputError("sample_weight must be above 0 for one row at least, got zeros")
    return weight


def check_numbers(y: Any) -> None:
    """Raise if targets are texts: NumPy would say what it could not convert, but not what to do."""
    values = np.asarray(y)
    if values.dtype.kind in "OSU":
        for value in values.ravel().tolist():
            if isinstance(value, str | bytes):
                raise InputError(
                    f"y must be numbers, got {value!r}; for labels of classes there is "
                    "MaxoutGPClassifier"
                )


def check_class_weight(class_weight: Any) -> None:
    """Raise if it is none of the three that scikit-learn knows."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, dict):
        raise InputError(
            "class_weight must be None, 'balanced' or a dict from labels to weights, "
            f"got {class_weight!r}"
        )
    for label, weight in class_weight.items():
        _validation.real(f"class_weight[{label!r}]", weight, low=0.0)

"""What is done to images before a kernel sees them, as scikit-learn transformers.

Both take rows of all pixels, and arrays (n, height, width, channels) just as well: what comes out
has the shape of what went in. Numbers in single precision stay in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError
from mnngp.estimators.features import Whitened, standardised_rows
from mnngp.estimators.parameters import sample_weights

_Images = NDArray[Any]


class _ImageTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows of pixels for scikit-learn's checks, whatever the shape of the images."""

    image_shape_: tuple[int, ...] | None  # of arrays that it was fitted to; None: rows

    def _rows(self, X: Any, *, reset: bool) -> tuple[_Images, tuple[int, ...]]:
        """Finite numbers (n, pixels), in single precision only if they were; and the shape of X."""
        shape = tuple(getattr(X, "shape", ()))[1:]
        if len(shape) > 1:
            X = np.asarray(X).reshape(-1, math.prod(shape))
        else:
            shape = ()
        if shape and not reset and self.image_shape_ not in (None, shape):
            raise InputError(
                f"X must have images of the shape {self.image_shape_}, as in fit, got {shape}"
            )
        rows = np.asarray(validate_data(self, X, reset=reset, dtype=(np.float64, np.float32)))
        if reset:
            self.image_shape_ = shape or None
        return rows, (len(rows), *(shape or rows.shape[1:]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class ImageStandardizer(_ImageTransformer):
    """Each image minus its own mean, divided by its own standard deviation.

    All pixels and channels of an image are taken together. An image without variation becomes
    zeros. Nothing is learned but the number of pixels.

    Attributes
    ----------
    image_shape_ : tuple or None
        Of the images, if they came as such.
    n_features_in_, feature_names_in_
        Number and names of the columns, as scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.arange(24.0).reshape(2, 2, 2, 3)
    >>> standard = ImageStandardizer().fit_transform(images)
    >>> standard.shape, standard.mean(axis=(1, 2, 3)).round(12), standard.std(axis=(1, 2, 3))
    ((2, 2, 2, 3), array([0., 0.]), array([1., 1.]))
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how many pixels there are."""
        self._rows(X, reset=True)
        return self

    def transform(self, X: Any) -> _Images:
        """The images, standardised."""
        check_is_fitted(self, "n_features_in_")
        rows, shape = self._rows(X, reset=False)
        return standardised_rows(rows).reshape(shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


class _Whitening(_ImageTransformer, ABC):
    """What two ways of whitening share."""

    regularization: float
    standardize: bool

    def _learning(self, X: Any) -> _Images:
        """Rows to learn from, in double precision."""
        _validation.real("regularization", self.regularization, low=0.0)
        if not isinstance(self.standardize, bool | np.bool_):
            raise InputError(f"standardize must be True or False, got {self.standardize!r}")
        rows = self._rows(X, reset=True)[0].astype(np.float64, copy=False)
        return standardised_rows(rows) if self.standardize else rows

    def transform(self, X: Any) -> _Images:
        """The images, whitened."""
        check_is_fitted(self, "n_features_in_")
        rows, shape = self._rows(X, reset=False)
        return self._whiten(standardised_rows(rows) if self.standardize else rows).reshape(shape)

    @abstractmethod
    def _whiten(self, X: _Images) -> _Images:
        """Rows, in their type."""


class ZCAWhitening(_Whitening):
    """Images whose pixels are decorrelated, and which look like images still.

    With μ the mean and U Λ Uᵀ the covariance of the training images it takes x to

        U (Λ + regularization · mean(Λ))^(-1/2) Uᵀ (x - μ).

    Fewer images than pixels take as much work as their number asks for. Where all training images
    are the same there is nothing to divide by: only μ is taken off. Have many more images than
    pixels, or use ``StationaryWhitening``: training images come out smaller than new ones if they
    are few, and a model that learns from them expects what it will not see.

    Parameters
    ----------
    regularization : float
        What is added to the variances, in units of their mean: 0.1 flattens what is above a tenth
        of the mean, and leaves noise below it small. With zero, directions without any variance in
        the training images are left out.
    standardize : bool
        Whether each image is standardised before, as by ``ImageStandardizer``.

    Attributes
    ----------
    mean_ : array (pixels,)
        Of the training images.
    components_ : array (r, pixels)
        Directions of the training images' variance, the largest first; at most as many as images.
    explained_variance_ : array (r,)
        Λ, of each of them.
    image_shape_ : tuple or None
        Of the images, if they came as such.
    n_features_in_, feature_names_in_
        Number and names of the columns, as scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> white = ZCAWhitening(regularization=0.001).fit_transform(X)
    >>> [np.corrcoef(pixels[:, 2:4].T)[0, 1].round(2).item() for pixels in (X, white)]
    [0.56, 0.0]
    >>> ZCAWhitening(standardize=True).fit(X[:100]).transform(X.reshape(-1, 8, 8)).shape
    (1797, 8, 8)
    """

    def __init__(self, regularization: float = 0.1, standardize: bool = False) -> None:
        self.regularization = regularization
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn mean and covariance of images; one of the weight two counts as two of them."""
        rows = self._learning(X)
        axes = PrincipalAxes.of(rows, sample_weights(sample_weight, rows))
        self.mean_, self.explained_variance_, self.components_ = axes
        return self

    def _whiten(self, X: _Images) -> _Images:
        """``(x - μ)/√ε + Vᵀ diag((Λ + ε)^(-1/2) - ε^(-1/2)) V (x - μ)``, V the components.

        The same as above, and few images take little work, however many pixels they have.
        """
        (r, d), variance = self.components_.shape, self.explained_variance_
        added = float(self.regularization) * float(variance.sum()) / d
        # without any variance there is nothing to divide by; without ε only directions that have it
        scale = 1.0 if r == 0 else math.sqrt(added) if added > 0.0 else math.inf
        gain = 1.0 / np.sqrt(variance + added) - 1.0 / scale
        mean, components, gain = (
            part.astype(X.dtype, copy=False) for part in (self.mean_, self.components_, gain)
        )
        centred = X - mean
        result = ((centred @ components.T) * gain) @ components
        result += centred / X.dtype.type(scale)
        return np.asarray(result)


class PrincipalAxes(NamedTuple):
    """Mean of rows, and the directions in which they vary, the largest variance first."""

    mean: Vector
    variance: Vector  # (r,)
    components: Matrix  # (r, d), orthonormal

    @staticmethod
    def of(X: Matrix, weight: Vector | None = None) -> PrincipalAxes:
        """By the smaller one of the two matrices that have the same eigenvalues."""
        share = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
        mean = share @ X
        centred = (X - mean) * np.sqrt(share)[:, None]
        few = len(X) < X.shape[1]
        values, vectors = np.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
        # what is left of equal rows is the rounding of their mean
        eps = np.finfo(np.float64).eps
        rounding = X.shape[1] * (8.0 * eps * float(np.abs(X).max())) ** 2
        there = np.flatnonzero(values > max(len(values) * eps * values[-1], rounding))[::-1]
        components = vectors.T[there]
        if few:
            components = components @ centred / np.sqrt(values[there])[:, None]
        return PrincipalAxes(mean, values[there], np.ascontiguousarray(components))


class StationaryWhitening(_Whitening):
    """Images whitened as if all positions were alike: for few images.

    ``ZCAWhitening`` learns a variance for each pair of pixels, for which it wants more images than
    pixels. Here each frequency (of a discrete cosine transform) has a matrix of second moments
    between channels, S, and its coefficients are multiplied by
    ``(S + regularization · mean)^(-1/2)``, with the mean of the variances of all frequencies. The
    pixels of the training images have the mean square one then.

    Parameters
    ----------
    regularization : float
        What is added to the variances, in units of their mean.
    standardize : bool
        Whether each image is standardised before, as by ``ImageStandardizer``.
    image_shape : (height, width) or (height, width, channels), optional
        Of images that come as rows of pixels; arrays show it.

    Attributes
    ----------
    filters_ : array (pixels, channels)
        The matrix that each frequency is multiplied by, one after the other.
    image_shape_ : tuple or None
        Of the images, if they came as such.
    n_features_in_, feature_names_in_
        Number and names of the columns, as scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().images
    >>> white = StationaryWhitening(regularization=0.01).fit(X[:100]).transform(X)
    >>> [np.corrcoef(one[:, 4, 3], one[:, 5, 3])[0, 1].round(2).item() for one in (X, white)]
    [0.55, -0.01]
    """

    def __init__(
        self,
        regularization: float = 0.1,
        standardize: bool = False,
        image_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.regularization = regularization
        self.standardize = standardize
        self.image_shape = image_shape

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn what frequencies images have; one of the weight two counts as two of them."""
        given, rows = _validation.image_shape(self.image_shape, False), self._learning(X)
        shape = given or self.image_shape_ or (1, rows.shape[1])  # or else rows are signals
        if math.prod(shape) != rows.shape[1] or len(shape) not in {2, 3}:
            raise InputError(
                f"X must have {math.prod(shape)} pixels, as image_shape={self.image_shape} says, "
                f"got images of the shape {self.image_shape_ or rows.shape[1:]}"
            )
        weight = sample_weights(sample_weight, rows)
        self._learned = Whitened.learned(rows, shape, float(self.regularization), weight)
        self.filters_ = self._learned.filters
        return self

    def _whiten(self, X: _Images) -> _Images:
        return self._learned.whiten(X)

"""What is done to images before a kernel sees them, as scikit-learn transformers.

Both take rows of all pixels, and arrays (n, height, width, channels) just as well: what comes out
has the shape of what went in. Numbers in single precision stay in it.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mnngp import _validation
from mnngp.errors import InputError
from mnngp.estimators.features import PrincipalAxes, Whitened, standardised_rows
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


class ZCAWhitening(_ImageTransformer):
    """Images whose pixels are decorrelated, and which look like images still.

    With μ the mean and U Λ Uᵀ the covariance of the training images it takes x to

        U (Λ + regularization · mean(Λ))^(-1/2) Uᵀ (x - μ).

    Fewer images than pixels take as much work as their number asks for. Where all training images
    are the same there is nothing to divide by: only μ is taken off.

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
    components_ : array (r, pixels)
        Directions of the training images' variance, the largest first; at most as many as images.
    explained_variance_ : array (r,)
        Λ, of each of them.
    image_shape_ : tuple or None
        Of the images, if they came as such.
    n_features_in_, feature_names_in_

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
        _validation.real("regularization", self.regularization, low=0.0)
        if not isinstance(self.standardize, bool | np.bool_):
            raise InputError(f"standardize must be True or False, got {self.standardize!r}")
        rows = self._rows(X, reset=True)[0].astype(np.float64, copy=False)
        weight = sample_weights(sample_weight, rows)
        if self.standardize:
            rows = standardised_rows(rows)
        axes = PrincipalAxes.of(rows, weight)
        self.mean_, self.explained_variance_, self.components_ = axes
        self._whitened = Whitened.along(axes, float(self.regularization))
        return self

    def transform(self, X: Any) -> _Images:
        """The images, whitened."""
        check_is_fitted(self, "mean_")
        rows, shape = self._rows(X, reset=False)
        standard = standardised_rows(rows) if self.standardize else rows
        return self._whitened.whiten(standard).reshape(shape)

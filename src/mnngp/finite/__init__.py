"""Maxout networks of finite width. They need PyTorch (``pip install "mnngp[torch]"``)."""

from mnngp.errors import MissingExtraError

try:
    import torch as _  # noqa: F401
except ImportError as error:
    raise MissingExtraError('finite networks need PyTorch: pip install "mnngp[torch]"') from error

from mnngp.finite.network import MaxoutNetwork

__all__ = ["MaxoutNetwork"]

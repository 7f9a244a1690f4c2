"""What the public image collections are: names, sizes, homes, and the digests of their files.

Digests are of the content, unpacked, so that a file counts as the same however it was compressed
(Debian, for one, packs anew). They were computed from the files themselves and agree with those
that others publish; of CIFAR-10's Python version only the MD5 that torchvision publishes are known
to us. What is downloaded is also checked as it is served, before it gets its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from mnngp._validation import one_of

Digests = Mapping[str, str]  # "algorithm:hexadecimal" of each file


@dataclass(frozen=True, eq=False)
class Collection:
    """A public collection of images, in two parts: to learn from and to test on.

    ``files`` are those of its main format, with the digests of their content; ``served`` are those
    that its home offers, by their place in the data folder, with the digests of what is sent.
    """

    name: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    train: int
    test: int
    home: str = ""
    folders: tuple[str, ...] = ()
    files: Digests = field(default_factory=dict)
    served: Digests = field(default_factory=dict)
    megabytes: int = 0


def _published() -> dict[str, dict[str, Any]]:
    """What collections.json says, with tuples for lists."""
    text = files("mnngp.data").joinpath("collections.json").read_text(encoding="utf-8")
    return {
        name: {key: tuple(value) if isinstance(value, list) else value for key, value in of.items()}
        for name, of in json.loads(text).items()
    }


_KNOWN = _published()
CIFAR10_PYTHON: Digests = _KNOWN.pop("cifar10-python")["files"]
COLLECTIONS = {name: Collection(name, **facts) for name, facts in _KNOWN.items()}
"""The collections that are known, by name."""
CIFAR10 = COLLECTIONS["cifar10"]
NAMES = tuple(COLLECTIONS)
"""The names of the collections: what ``load`` and ``fetch`` take."""


def collection(name: object) -> Collection:
    """The collection of that name; capitals, spaces and hyphens do not matter.

    >>> collection("CIFAR-10").name, collection("FashionMNIST").name
    ('cifar10', 'fashion-mnist')
    """
    if isinstance(name, str):
        letters = "".join(character for character in name.lower() if character.isalnum())
        name = next((known for known in NAMES if known.replace("-", "") == letters), name)
    return COLLECTIONS[one_of("name", name, NAMES)]


def owner(digest: str) -> str | None:
    """Which published file has that digest; two collections have files of the same names."""
    for known in COLLECTIONS.values():
        for file, published in known.files.items():
            if published == digest:
                return f"{file} of {known.name}"
    return None

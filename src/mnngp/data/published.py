"""What the public image collections are: names, sizes, homes, and the digests of their files.

Digests are of the content, unpacked, so that a file counts as the same however it was compressed
(Debian, for one, packs anew). They were computed from the files themselves and agree with those
that others publish; of CIFAR-10's Python version only the MD5 that torchvision publishes are known
to us. What is downloaded is also checked as it is served, before it gets its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


_DIGITS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")

DIGITS = Collection("digits", shape=(8, 8), classes=_DIGITS, train=1198, test=599)

MNIST = Collection(
    "mnist",
    shape=(28, 28),
    classes=_DIGITS,
    train=60000,
    test=10000,
    home="https://ossci-datasets.s3.amazonaws.com/mnist/",
    folders=("mnist", "MNIST/raw", "MNIST", ""),
    files={
        "train-images-idx3-ubyte": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    served={
        "mnist/train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "mnist/train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "mnist/t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "mnist/t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    megabytes=12,
)

FASHION = Collection(
    "fashion-mnist",
    shape=(28, 28),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    train=60000,
    test=10000,
    home="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", ""),
    files={
        "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    served={
        "fashion-mnist/train-images-idx3-ubyte.gz": "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "fashion-mnist/train-labels-idx1-ubyte.gz": "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "fashion-mnist/t10k-images-idx3-ubyte.gz": "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "fashion-mnist/t10k-labels-idx1-ubyte.gz": "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    megabytes=31,
)

CIFAR10 = Collection(
    "cifar10",
    shape=(3, 32, 32),
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    train=50000,
    test=10000,
    home="https://www.cs.toronto.edu/~kriz/",
    folders=("", "cifar10", "cifar-10"),
    files={
        "data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    served={
        "cifar-10-binary.tar.gz": "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    },
    megabytes=170,
)

CIFAR10_PYTHON: Digests = {
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
}

COLLECTIONS = {collection.name: collection for collection in (DIGITS, MNIST, FASHION, CIFAR10)}
NAMES = tuple(COLLECTIONS)


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

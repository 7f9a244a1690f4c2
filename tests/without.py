"""A Python in which some packages are not installed."""

import os

EXPERIMENTS = ("matplotlib", "pooch", "polars", "jinja2", "plotly")
EXTRAS = (*EXPERIMENTS, "torch", "gpytorch", "dask", "distributed")


def environment(folder, *packages):
    """The environment of a process that finds in their place, before them, modules that do what a
    missing one does.
    """
    folder.mkdir(exist_ok=True)
    for name in packages:
        text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"
        (folder / f"{name}.py").write_text(text)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

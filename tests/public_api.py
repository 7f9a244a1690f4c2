"""The public interface as text: names, signatures and bases.

A test compares it with public_api.txt. After a change that is meant: python -m tests.public_api
"""

import functools
import importlib
import importlib.util
import inspect
from pathlib import Path

import mnngp

FILE = Path(__file__).with_suffix(".txt")
# What each needs beside the core; `experiments` is the paper's, and may change.
MODULES = {
    "mnngp": None,
    **{
        f"mnngp.{name}": None
        for name in mnngp._SUBMODULES
        if name not in ("experiments", "interop")
    },
    "mnngp.finite": "torch",
    "mnngp.interop.gpytorch": "gpytorch",
}


@functools.cache
def describe():
    """The lines of each module: a public name each, those of classes with their public members."""
    sections, homes = {}, {}
    for module_name, needed in MODULES.items():
        if needed is not None and importlib.util.find_spec(needed) is None:
            continue
        module = importlib.import_module(module_name)
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module_name
        ]
        sections[module_name] = lines = []
        for name in sorted(names):
            value = getattr(module, name)
            if callable(value) and value in homes:
                lines.append(f"{name} is {homes[value]}.{name}")
                continue
            lines += _lines(name, value)
            if callable(value):
                homes[value] = module_name
    return sections


def _lines(name, value):
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        head = f"class {name}({bases})" if bases else f"class {name}"
        return [head, *(f"    {line}" for line in _members(value))]
    if callable(value):
        return [f"{name}{_signature(value)}"]
    return [f"{name}: {type(value).__name__}"]


def _members(kind):
    """How an object is made, and what of it is public and ours, not inherited from elsewhere."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "mnngp"]
    fields = {name for base in ours for name in getattr(base, "__annotations__", {})}
    found = {name: value for base in reversed(ours) for name, value in vars(base).items()}
    lines = [] if issubclass(kind, BaseException) else [f"__init__{_signature(kind)}"]
    for name in sorted({*fields, *found}):
        if name.startswith("_") or name.endswith("_request"):
            continue  # scikit-learn's methods for its routing
        value = inspect.unwrap(getattr(found.get(name), "__func__", found.get(name)))
        lines.append(f"{name}{_signature(value)}" if inspect.isfunction(value) else name)
    return lines


def _signature(function):
    """Names, kinds and defaults of arguments; types are mypy's business."""
    arguments = inspect.signature(function).parameters.values()
    plain = [one.replace(annotation=one.empty, default=_default(one.default)) for one in arguments]
    return str(inspect.Signature(plain))


def _default(value):
    """A default whose text is the same in every process."""
    return _Named() if inspect.isfunction(value) else value


class _Named:
    def __repr__(self):
        return "<function>"


def stored():
    """The lines of each module in the file."""
    sections = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            sections[line.removeprefix("# ")] = lines = []
        elif line:
            lines.append(line)
    return sections


def write():
    """Write the file anew."""
    sections = (f"# {name}\n" + "\n".join(lines) + "\n" for name, lines in describe().items())
    FILE.write_text("\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write()

"""Draw the order of rooms to docs/figures/rooms.svg, from the contract in pyproject.toml.

After a change of it: python docs/rooms.py; a test compares.
"""

import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "figures" / "rooms.svg"
SUBJECTS = {
    "commands": "the command line",
    "experiments": "the paper's protocols, sweeps, stores and reports",
    "finite": "networks of finite width",
    "interop": "GPyTorch and BoTorch",
    "data": "images and tables",
    "estimators": "regressor and classifier, features, model files",
    "inference": "posterior, evidence, hyperparameters, solvers",
    "kernels": "from a network and points to matrices",
    "networks": "what a network is, as data",
    "plots": "pictures of the theory",
    "theory": "fixed points, phases, critical variances",
    "activations": "what one layer does to a pair of Gaussians",
    "tables": "frames, and what their columns become",
    "_system": "memory, threads, compiled code, progress, clusters",
    "_io": "files, never half written",
    "_validation": "checks of arguments",
    "_typing": "names of array types",
    "errors": "exceptions and warnings",
}
LEFT, WIDTH, HEIGHT, GAP, TOP = 60, 640, 42, 6, 14
FONT = "font-family='system-ui, sans-serif'"


def layers() -> list[list[str]]:
    """The rooms from top to bottom; those that stand side by side do not import each other."""
    settings = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    rows = [layer.split(" | ") for layer in contract["layers"]]
    return [row for row in rows if row != ["__main__"]]


def picture() -> str:
    """The drawing, as SVG."""
    rows = layers()
    height = TOP + len(rows) * (HEIGHT + GAP) + 8
    bottom, middle = height - 14, height // 2
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {LEFT + WIDTH + 10} {height}' "
        f"width='{LEFT + WIDTH + 10}' height='{height}'>",
        "<rect width='100%' height='100%' fill='white'/>",
        "<defs><marker id='tip' viewBox='0 0 10 10' refX='8' refY='5' markerWidth='7' "
        "markerHeight='7' orient='auto'><path d='M0 0 L10 5 L0 10 z' fill='#555'/></marker></defs>",
        f"<line x1='40' y1='{TOP}' x2='40' y2='{bottom}' stroke='#555' stroke-width='1.5' "
        "marker-end='url(#tip)'/>",
        f"<text x='28' y='{middle}' text-anchor='middle' font-size='13' fill='#555' {FONT} "
        f"transform='rotate(-90 28 {middle})'>imports</text>",
    ]
    for number, row in enumerate(rows):
        width = (WIDTH - GAP * (len(row) - 1)) / len(row)
        for column, room in enumerate(row):
            x, y = LEFT + column * (width + GAP), TOP + number * (HEIGHT + GAP)
            private = room.startswith("_")
            lines += [
                f"<rect x='{x:.0f}' y='{y}' width='{width:.0f}' height='{HEIGHT}' rx='5' "
                f"fill='{'#f0f0f0' if private else '#dbe9f6'}' "
                f"stroke='{'#999' if private else '#1b6ca8'}'/>",
                f"<text x='{x + 12:.0f}' y='{y + 26}' font-size='14' {FONT}>"
                f"<tspan font-family='monospace' font-weight='bold'>{room}</tspan>"
                f"<tspan dx='12' font-size='13' fill='#333'>{escape(SUBJECTS[room])}</tspan>"
                "</text>",
            ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

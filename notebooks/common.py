"""What the notebooks share: the binary, the repository's runs, and figures that are told apart without colour vision."""

import json
import os
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "fixtures/runs"

# Okabe and Ito's palette.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000 #E69F00 #56B4E9 #009E73 #F0E442 #0072B2 #D55E00 #CC79A7".split()
)
GREY = "#999999"

plt.rcParams.update({
    "figure.figsize": (8.5, 3.6),
    "figure.dpi": 90,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "axes.prop_cycle": plt.cycler(color=[BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY]),
    "legend.frameon": False,
})

BINARY = os.environ.get("WHYSPIKE", "whyspike")
# Jupyter asks programs for colour, which is of no use in the text of a cell.
PLAIN = {k: v for k, v in os.environ.items() if k not in ("CLICOLOR_FORCE", "FORCE_COLOR")}


def whyspike(*args, cwd=ROOT):
    """What the tool prints; paths are told from the folder of the repository, so that none of this machine is shown."""
    done = subprocess.run([BINARY, *map(str, args)], cwd=cwd, env=PLAIN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def diagnose(*args, cwd=ROOT):
    """The diagnosis as JSON, schema 1."""
    return json.loads(whyspike("diagnose", *args, "--format", "json", cwd=cwd))

"""Run the numerical part of the tests on every machine that this one can stand in for, and print a table.

python tools/everywhere.py                      # every cell
python tools/everywhere.py kernel threads/4     # a group, a cell
python tools/everywhere.py --whole --shuffle 1  # all tests in each cell, each time in another order
python tools/everywhere.py --list

A cell is green, red, or "not runnable here" with the reason. The exit code is 1 if any cell is red, and 2 if
nothing was run. Other Pythons and dependencies need uv, which makes their environments in .everywhere.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Environments and logs; nothing in it is worth keeping.
PLACE = ROOT / ".everywhere"
EXTRAS = "dask,plot,serve,test"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The oldest dependencies are those of the oldest Python: their wheels know no later one.
OLDEST = PYTHONS[0]
NOBODY = 65534
#: Seconds that one cell may take.
PATIENCE = 1800
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: Kernels of OpenBLAS: the instructions that they need, as /proc/cpuinfo spells them, and what a build may
#: call them: on 64 bits Prescott is called Katmai, Zen runs Haswell's code, and where Cooperlake's was not
#: built, SkylakeX's runs in its place.
_AVX512 = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
KERNELS = {
    "Prescott": (("pni",), {"prescott", "katmai"}),
    "Nehalem": (("sse4_2",), {"nehalem"}),
    "Sandybridge": (("avx",), {"sandybridge"}),
    "Haswell": (("avx2", "fma"), {"haswell"}),
    "Zen": (("avx2", "fma"), {"zen", "haswell"}),
    "SkylakeX": (_AVX512, {"skylakex"}),
    "Cooperlake": ((*_AVX512, "avx512_bf16"), {"cooperlake", "skylakex"}),
}
#: What a child says about its BLAS after a product and a factorisation by it.
PROBE = """
import numpy, scipy.linalg, threadpoolctl
a = numpy.eye(200) + 0.1
scipy.linalg.cholesky(a @ a.T)
for pool in threadpoolctl.threadpool_info():
    if pool["user_api"] == "blas":
        print(pool["internal_api"], pool.get("architecture"))
"""


@dataclass(frozen=True)
class Cell:
    """One machine to stand in for: what is set, and how pytest is called."""

    group: str
    name: str
    environment: dict[str, str | None] = field(default_factory=dict)
    part: str = "numerical"
    arguments: tuple[str, ...] = ()
    #: Another Python, and "highest" or "lowest-direct" dependencies; without, those that run this script.
    python: str | None = None
    resolution: str = "highest"
    #: Run as a user who may write nowhere but in the temporary folder.
    unprivileged: bool = False

    @property
    def title(self) -> str:
        """Group and name."""
        return f"{self.group}/{self.name}"


@dataclass(frozen=True)
class Result:
    """What came of a cell."""

    cell: Cell
    colour: str
    words: str
    seconds: float = 0.0


class NotRunnableError(Exception):
    """The machine at hand cannot stand in for that one; the text says why."""


def shuffled(seed: int) -> tuple[str, ...]:
    """Return what makes pytest run the tests of each module, and the modules, in a random order."""
    return ("--random-order", "--random-order-bucket=module", f"--random-order-seed={seed}")


def cells() -> list[Cell]:
    """Return every cell, in the order of the table."""
    nowhere = {"HOME": "/nonexistent", "XDG_CACHE_HOME": None}
    old = ("-W", "default::DeprecationWarning")  # of old packages, which use what newer ones deprecate
    return [
        *(Cell("kernel", name, {"OPENBLAS_CORETYPE": name}) for name in KERNELS),
        *(Cell("threads", str(n), dict.fromkeys(THREADS, str(n))) for n in (1, 2, 4)),
        Cell("compiler", "generic", {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}),
        Cell("compiler", "off", {"NUMBA_DISABLE_JIT": "1"}, part="uncompiled"),
        *(
            Cell("order", str(seed), {"PYTHONHASHSEED": str(seed)}, arguments=shuffled(seed))
            for seed in (0, 1, 4294967295)
        ),
        Cell("home", "unset", {**nowhere, "HOME": None}),
        Cell("home", "missing", nowhere),
        Cell("home", "read-only", nowhere, unprivileged=True),
        *(Cell("python", version, python=version) for version in PYTHONS),
        Cell("dependencies", "lowest", python=OLDEST, resolution="lowest-direct", arguments=old),
        Cell("dependencies", "newest", python=PYTHONS[-1]),
    ]


def chosen(wanted: Iterable[str]) -> list[Cell]:
    """Return the cells that are asked for by group, title or pattern, or all of them."""
    found = []
    for pattern in wanted or ["*"]:
        hits = [c for c in cells() if c.group == pattern or fnmatch.fnmatch(c.title, pattern)]
        if not hits:
            raise SystemExit(f"no cell is called {pattern!r}; --list names them all")
        found += [cell for cell in hits if cell not in found]
    return found


def environment_of(cell: Cell) -> dict[str, str]:
    """Return the variables of a cell; None takes one away."""
    variables: dict[str, str | None] = {**os.environ, **dict.fromkeys(THREADS, "1"), **cell.environment}
    return {name: value for name, value in variables.items() if value is not None}


def processor_flags() -> set[str]:
    """Return the instructions of this processor."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise NotRunnableError(f"a kernel of x86-64, and this processor is {platform.machine()}")
    information = Path("/proc/cpuinfo")
    if not information.exists():
        raise NotRunnableError("only Linux says which instructions the processor has")
    found = re.search(r"^flags\s*:(.*)$", information.read_text(), re.MULTILINE)
    return set(found[1].split()) if found else set()


def check_kernel(cell: Cell, python: str) -> None:
    """Refuse a kernel that the processor cannot execute, and fail if OpenBLAS silently takes another."""
    name = cell.environment.get("OPENBLAS_CORETYPE")
    if name is None:
        return
    needed, reported = KERNELS[name]
    missing = [flag for flag in needed if flag not in processor_flags()]
    if missing:
        raise NotRunnableError(f"the processor has no {', '.join(missing)}")
    said = subprocess.run(
        [python, "-c", PROBE], env=environment_of(cell), capture_output=True, text=True, check=True
    )
    pools = [line.lower().split() for line in said.stdout.splitlines()]
    if not any(kind == "openblas" for kind, _ in pools):
        raise NotRunnableError("NumPy and SciPy use no OpenBLAS here")
    others = {architecture for kind, architecture in pools if kind == "openblas"} - reported
    if others:
        raise RuntimeError(f"asked for {name}, OpenBLAS runs {', '.join(sorted(others))}")


def interpreter(version: str) -> str:
    """Return the path of a Python: installed, of pyenv, or fetched by uv where it can."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version == own:
        return sys.executable
    named = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for candidate in filter(None, [named, *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]):
        asked = subprocess.run([candidate, "-c", "import venv"], capture_output=True)
        if asked.returncode == 0:
            return candidate
    subprocess.run([uv(), "python", "install", "-q", version], capture_output=True)
    found = subprocess.run([uv(), "python", "find", version], capture_output=True, text=True)
    if found.returncode:
        raise NotRunnableError(f"no Python {version} is installed, and uv could not fetch one")
    return found.stdout.strip()


def uv() -> str:
    """Return the path of uv: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise NotRunnableError("uv is missing: pip install uv")
    return found


def python_of(cell: Cell) -> str:
    """Return the Python that runs a cell, in an environment made for it if it asks for another."""
    if cell.unprivileged and not others_can_run(sys.executable):
        return environment(interpreter_of_the_system(), "python-of-the-system", cell.resolution)
    if cell.python is None:
        return sys.executable
    return environment(interpreter(cell.python), f"python{cell.python}-{cell.resolution}", cell.resolution)


def others_can_run(python: str) -> bool:
    """Return whether a user without rights may start a Python; True where we have none ourselves."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return True
    try:
        asked = subprocess.run([python, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    except OSError:
        return False
    return asked.returncode == 0


def interpreter_of_the_system() -> str:
    """Return the path of a Python that lies where every user can read it."""
    for version in PYTHONS:
        found = shutil.which(f"python{version}", path="/usr/local/bin:/usr/bin")
        if found is not None and others_can_run(found):
            return found
    raise NotRunnableError(f"{sys.executable} is not readable for others than root, and no other Python is")


def environment(base: str, name: str, resolution: str) -> str:
    """Return the Python of an environment made anew from another one."""
    folder = PLACE / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    quiet: dict[str, Any] = {"check": True, "capture_output": True, "text": True}
    subprocess.run([uv(), "venv", "-q", "--clear", "-p", base, str(folder)], **quiet)
    install = [uv(), "pip", "install", "-q", "-p", str(python), "--resolution", resolution]
    subprocess.run([*install, "--editable", f"{ROOT}[{EXTRAS}]"], **quiet)
    return str(python)


def run(cell: Cell) -> Result:
    """Run one cell and say what came of it."""
    start = time.perf_counter()
    try:
        python = python_of(cell)
        check_kernel(cell, python)
        colour, words = tested(cell, python)
    except NotRunnableError as reason:
        colour, words = "not runnable here", str(reason)
    except subprocess.CalledProcessError as failure:
        last = (failure.stderr or "").strip().splitlines()[-1:] or [f"exit code {failure.returncode}"]
        colour, words = "red", f"could not be set up: {last[0]}"
    except subprocess.TimeoutExpired:
        colour, words = "red", f"not done in {PATIENCE} s"
    except RuntimeError as failure:
        colour, words = "red", str(failure)
    return Result(cell, colour, words, time.perf_counter() - start)


def tested(cell: Cell, python: str) -> tuple[str, str]:
    """Run pytest and return a colour and pytest's own summary."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    command += [f"--part={cell.part}"] if cell.part else []
    # Other parts are short, and without its compiler Numba is too slow for the examples of the pages.
    command += ["tests"] if cell.part not in ("", "numerical") else []
    command += ["-n", "auto", "--maxprocesses=4", *cell.arguments]
    log = PLACE / "logs" / f"{cell.title.replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, log.open("w") as output:
        variables = environment_of(cell)
        options: dict[str, Any] = {}
        if cell.unprivileged:
            options = give_up_rights(python, Path(temporary))
            variables |= {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": temporary}
        done = subprocess.run(
            command, cwd=ROOT, env=variables, stdout=output, stderr=output, timeout=PATIENCE, **options
        )
    lines = log.read_text(errors="replace").splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    for line in failures:
        print(f"   {line}", flush=True)
    if done.returncode < 0:
        return "red", f"ended by {signal.Signals(-done.returncode).name}, see {log.relative_to(ROOT)}"
    summary = lines[-1].strip("= ") if lines else "no output"
    if done.returncode == 0 and " passed" in summary:
        return "green", summary
    return "red", f"{summary}, see {log.relative_to(ROOT)}"


def give_up_rights(python: str, temporary: Path) -> dict[str, Any]:
    """Return how to start a child that may not write into the checkout: root becomes nobody."""
    if not hasattr(os, "geteuid"):
        raise NotRunnableError("needs the users of Unix")
    if os.geteuid() != 0:
        if os.access(ROOT / "src", os.W_OK):
            raise NotRunnableError("only root can become a user who may not write into the checkout")
        return {}
    os.chown(temporary, NOBODY, NOBODY)
    rights: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        subprocess.run(
            [python, "-c", "import squaresvm"], check=True, capture_output=True, cwd=ROOT, **rights
        )
    except (OSError, subprocess.CalledProcessError):
        raise NotRunnableError(f"{python} is not readable for others than root") from None
    return rights


def table(results: list[Result]) -> str:
    """Return the results as a Markdown table."""
    rows = [("machine", "result", "seconds", "what pytest or the machine said")]
    rows += [(r.cell.title, r.colour, f"{r.seconds:.0f}", r.words) for r in results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(lines)


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help="groups, titles or patterns; all without")
    parser.add_argument("--list", action="store_true", help="name the cells and end")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--whole", action="store_true", help="run all tests in each cell, not only the part")
    parser.add_argument(
        "--shuffle", type=int, metavar="SEED", help="run the tests of each cell in an order of its own"
    )
    parser.add_argument("--part", metavar="NAME", help="a part out of tests/support/parts.py for every cell")
    given = parser.parse_args()
    wanted = chosen(given.cells)
    if given.list:
        print("\n".join(cell.title for cell in wanted))
        return 0
    results = []
    for number, cell in enumerate(wanted):
        print(f"== {cell.title}", flush=True)
        part = "" if given.whole else given.part or cell.part
        order = () if given.shuffle is None else shuffled(given.shuffle + number)
        results.append(run(replace(cell, part=part, arguments=(*cell.arguments, *order))))
        print(f"   {results[-1].colour}: {results[-1].words}", flush=True)
    text = table(results)
    print(f"\n{text}")
    if given.report:
        given.report.write_text(text + "\n")
    colours = {result.colour for result in results}
    return 1 if "red" in colours else 0 if "green" in colours else 2


if __name__ == "__main__":
    sys.exit(main())

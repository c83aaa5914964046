"""Build wheel and source distribution into dist/, check both, and run the tests of the latter from itself.

python tools/distributions.py [--no-tests] [--part numerical]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def call(*command: str | Path, **options: object) -> None:
    """Run a command that must succeed, with this Python."""
    subprocess.run([sys.executable, *map(str, command)], check=True, **options)  # type: ignore[call-overload]


def build() -> tuple[Path, Path]:
    """Return the source distribution, and the wheel that was built from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    call("-m", "build", "--outdir", DIST, ROOT)
    call("-m", "twine", "check", "--strict", *DIST.iterdir())
    return next(DIST.glob("*.tar.gz")), next(DIST.glob("*.whl"))


def check_wheel(wheel: Path) -> None:
    """Fail unless the wheel holds the package, all its data, and nothing else."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "src"], capture_output=True, text=True, check=True
    )
    expected = {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
    if held != expected:
        raise SystemExit(f"{wheel.name}: differs from src in {', '.join(sorted(held ^ expected))}")


def test(source: Path, part: str | None) -> None:
    """Unpack the source distribution elsewhere and run its tests on its own code."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder, source.name.removesuffix(".tar.gz"))
        variables = {**os.environ, "PYTHONPATH": str(unpacked / "src"), "OMP_NUM_THREADS": "1"}
        variables |= {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        found = "import squaresvm, sys; sys.exit(not squaresvm.__file__.startswith(sys.argv[1]))"
        call("-c", found, unpacked, env=variables, cwd=folder)
        command = ["-m", "pytest", "-q", "-n", "auto", "--maxprocesses=4", "-m", "not slow"]
        call(*command, *([f"--part={part}"] if part else []), env=variables, cwd=unpacked)


def main() -> None:
    """Build, check and test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-tests", action="store_true", help="build and check only")
    parser.add_argument("--part", help="run one part of the suite only")
    given = parser.parse_args()
    source, wheel = build()
    check_wheel(wheel)
    if not given.no_tests:
        test(source, given.part)
    print(f"{source.name} and {wheel.name} are in {DIST.name}/")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"failed: {' '.join(failure.cmd)}")

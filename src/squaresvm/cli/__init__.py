"""The command line."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; say which extra is missing where Typer is."""
    try:
        from squaresvm.cli.app import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except ModuleNotFoundError as error:
        from squaresvm.runtime.extras import install_line

        print(f"squaresvm: the command line needs {error.name}: {install_line('cli')}", file=sys.stderr)
        raise SystemExit(2) from None
    app()

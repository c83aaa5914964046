"""``python -m squaresvm``."""

from __future__ import annotations

from squaresvm.cli import main

if __name__ == "__main__":
    main()

"""Receipts signed with Ed25519, so that who made them cannot deny it: needs the extra ``sign``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from squaresvm.evidence.receipt import Receipt

__all__ = ["check_signatures", "new_key", "signed"]


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError("signatures need the package cryptography: pip install 'squaresvm[sign]'") from None
    return serialization, ed25519


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a private key, write it to a new file that only its owner can read, and return the public key.

    Parameters
    ----------
    path : path-like
        Must not exist.

    Returns
    -------
    str
        64 hexadecimal digits: publish them.
    """
    serialization, ed25519 = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
    return _public(key)


def _public(key: Any) -> str:
    serialization, _ = _cryptography()
    found: bytes = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return found.hex()


def signed(receipts: Iterable[Receipt], path: str | os.PathLike[str]) -> list[Receipt]:
    """Return sealed receipts with signatures of their hashes, where they have none yet.

    Parameters
    ----------
    receipts : iterable of Receipt
    path : path-like
        File with the private key, in PEM, without a password.

    Raises
    ------
    ValueError
        If the file holds no private key for Ed25519, or a receipt is not sealed.
    """
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ValueError(f"{os.fspath(path)}: holds no private key for Ed25519 in PEM")
    found = []
    for receipt in receipts:
        if not receipt.hash:
            raise ValueError(f"receipt {receipt.number} is not sealed: take it from receipts_")
        signature = receipt.signature or key.sign(bytes.fromhex(receipt.hash)).hex()
        found.append(receipt.but(signature=signature))
    return found


def check_signatures(receipts: Iterable[Receipt], public_key: str) -> list[str]:
    """Return which receipts are not signed, or not by this key, a sentence each.

    Parameters
    ----------
    receipts : iterable of Receipt
    public_key : str
        As `new_key` returned it.
    """
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    except ValueError:
        raise ValueError("a public key for Ed25519 has 64 hexadecimal digits") from None
    faults = []
    for receipt in receipts:
        try:
            key.verify(bytes.fromhex(receipt.signature), bytes.fromhex(receipt.hashed()))
        except (InvalidSignature, ValueError):
            how = "is not signed" if not receipt.signature else "has no valid signature of this key"
            faults.append(f"receipt {receipt.number} {how}")
    return faults

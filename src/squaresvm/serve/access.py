"""Who may do what: bearer tokens with roles, of which only hashes are stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squaresvm.runtime.atomic import replacing
from squaresvm.serve.rows import RequestError

__all__ = ["ROLES", "Access", "Token", "add_token"]

#: What a token may be for.
ROLES = ("predict", "learn", "forget", "inspect")


@dataclass(frozen=True)
class Token:
    """One token, whose name is for people. Tokens are long and random, so that a plain hash is enough."""

    name: str
    sha256: str
    roles: frozenset[str]


class Access:
    """Decides who may do what; without tokens everybody who can reach the server may do everything.

    Examples
    --------
    >>> import hashlib
    >>> from squaresvm.serve.access import Access, Token
    >>> digest = hashlib.sha256(b"secret").hexdigest()
    >>> access = Access([Token("reader", digest, frozenset({"predict"}))])
    >>> sorted(access.roles("Bearer secret")), sorted(access.roles("Bearer other"))
    (['predict'], [])
    """

    def __init__(self, tokens: Iterable[Token] | None = None) -> None:
        self._tokens = None if tokens is None else tuple(tokens)

    @classmethod
    def read(cls, path: Path) -> Access:
        """Return what a file of tokens says; a ValueError names what is wrong with it."""
        return cls(_read(path))

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return self._tokens is None

    def roles(self, header: str | None) -> frozenset[str]:
        """Return the roles that an Authorization header gives; none where the token is unknown."""
        if self._tokens is None:
            return frozenset(ROLES)
        kind, _, secret = (header or "").partition(" ")
        if kind.lower() != "bearer":
            return frozenset()
        digest = _hashed(secret.strip())
        roles: frozenset[str] = frozenset()
        for token in self._tokens:  # All of them, whichever fits: the time tells nothing.
            if hmac.compare_digest(token.sha256, digest):
                roles = token.roles
        return roles

    def check(self, header: str | None, allowed: Iterable[str]) -> None:
        """Raise a RequestError unless a token has one of some roles."""
        roles = self.roles(header)
        if not roles:
            raise RequestError(401, "a token is needed: send the header 'Authorization: Bearer TOKEN'")
        if not roles & set(allowed):
            raise RequestError(403, f"this token does not allow that; the role is {' or '.join(allowed)}")


def add_token(path: Path, name: str, roles: Iterable[str]) -> str:
    """Make a token, add its hash to a file, and return it: it is stored nowhere; one of its name goes."""
    wanted = sorted(set(roles))
    unknown = [role for role in wanted if role not in ROLES]
    if unknown or not wanted:
        raise ValueError(f"roles are {', '.join(ROLES)}; got {', '.join(unknown) or 'none'}")
    kept = [token for token in (_read(path) if path.exists() else []) if token.name != name]
    secret = secrets.token_urlsafe(32)
    tokens = [*kept, Token(name, _hashed(secret), frozenset(wanted))]
    lines = [{"name": t.name, "sha256": t.sha256, "roles": sorted(t.roles)} for t in tokens]
    with replacing(path) as file:
        file.write(json.dumps({"tokens": lines}, indent=2).encode("ascii") + b"\n")
    path.chmod(0o600)
    return secret


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> list[Token]:
    try:
        lines: Any = json.loads(path.read_text(encoding="utf-8"))["tokens"]
        tokens = [Token(str(line["name"]), line["sha256"], frozenset(line["roles"])) for line in lines]
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file: make one with --add-token") from None
    except (ValueError, TypeError, KeyError, LookupError):
        raise ValueError(f"{path}: is not a file of tokens: make one with --add-token") from None
    for token in tokens:
        if not isinstance(token.sha256, str) or len(token.sha256) != 64 or not token.roles <= set(ROLES):
            raise ValueError(f"{path}: the token {token.name[:40]!r} has no hash, or roles that are unknown")
    if not tokens:
        raise ValueError(f"{path}: holds no tokens: make one with --add-token")
    return tokens

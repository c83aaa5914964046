"""``squaresvm serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squaresvm.cli.console import AsJson, BadInputError, Printer
from squaresvm.runtime.extras import install_line

__all__ = ["serve"]


def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Every file *.model in it is served.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any that other machines reach needs --tokens.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="File of tokens; requests without one of them are refused.", show_default="no tokens"
        ),
    ] = None,
    add_token: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:ROLE,...",
            help="Make a token with roles (predict, learn, forget, inspect), add its hash to --tokens, "
            "print it, and end.",
            show_default=False,
        ),
    ] = None,
    discard: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Drop the acknowledged requests of a model whose file somebody has replaced, and end.",
            show_default=False,
        ),
    ] = None,
    save_seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds within which a request is in the model file.")
    ] = 10.0,
    archive: Annotated[
        Path | None,
        typer.Option(
            help="Folder for receipts that leave the chain of a model when an anchor takes their place.",
            show_default="they are not kept",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the models of a folder: predictions, learning and forgetting with receipts, and pages.

    Open http://127.0.0.1:8000/ in a browser; programs find the routes at /openapi.json. A request that was
    answered is on disk. Ctrl-C or SIGTERM ends the server when what has begun is done.
    """
    printer = Printer(as_json)
    try:
        from squaresvm import serve as server
        from squaresvm.serve import access, journal
        from squaresvm.serve import folder as folders
    except ModuleNotFoundError as error:
        raise BadInputError(f"the server needs {error.name}: {install_line('serve')}") from None
    if add_token is not None:
        name, _, roles = add_token.partition(":")
        if tokens is None:
            raise BadInputError("--add-token needs --tokens FILE")
        secret = access.add_token(tokens, name, [role.strip() for role in roles.split(",") if role.strip()])
        printer.say(secret)
        printer.result({"token": secret, "name": name})
        return
    if discard is not None:
        if not folder.is_dir():
            raise BadInputError(f"{folder}: no such folder")
        opened = journal.Journal(folder / folders.JOURNAL_NAME)
        count = opened.discard(discard)
        opened.close()
        printer.say(f"Dropped {count} requests of {discard}.")
        printer.result({"model": discard, "dropped": count})
        return
    settings = server.Settings(folder, host, port, tokens, save_seconds=save_seconds, archive=archive)
    try:
        server.run(settings, printer.say)
    except (ValueError, OSError) as error:
        raise BadInputError(str(error)) from None

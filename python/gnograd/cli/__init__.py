# SPDX-License-Identifier: MIT
"""The command `gnograd`: training jobs and facts of the installation."""

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from gnograd.cli.app import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in {"matplotlib", "rich", "typer"}:
            raise
        raise SystemExit(
            f"gnograd: the command line needs {error.name}; "
            "install it with: pip install typer rich matplotlib"
        ) from error

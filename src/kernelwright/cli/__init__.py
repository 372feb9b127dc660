"""The command `kernelwright`: one file a command."""

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit with its code."""
    from kernelwright.cli._isolate import isolate

    isolate()
    from kernelwright.cli._app import main as run

    run()

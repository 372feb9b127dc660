"""`python -m kernelwright`: the same as the command."""

from kernelwright.cli import main

if __name__ == "__main__":
    main()

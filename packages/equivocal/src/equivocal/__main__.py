"""`python -m equivocal` is the same as `equivocal`."""

from equivocal.cli import main

if __name__ == "__main__":
    main()

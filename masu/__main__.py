"""`python -m masu` is the `masu` command."""

from masu.cli import main

if __name__ == "__main__":
    main()

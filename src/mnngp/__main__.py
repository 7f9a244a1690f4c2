"""``python -m mnngp``: the command line, where a program's directory is not on the path."""

from mnngp.commands.app import main

main()

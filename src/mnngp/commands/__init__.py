"""The commands of ``mnngp``, a module for each subject; ``mnngp.cli`` is the list of them."""

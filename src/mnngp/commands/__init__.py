"""The commands of ``mnngp``, a module for each subject; ``mnngp.commands.app`` is the list of them."""

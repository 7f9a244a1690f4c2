"""The commands of ``mnngp``, a module for each subject; ``app`` lists them."""

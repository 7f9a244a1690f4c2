"""Kernels of convolutional networks: the covariance of every pair of positions, exactly.

``geometry`` says what a readout asks for, ``maps`` what each image has of its own, ``rows`` and
``displacement`` are the compiled pass, ``pairs`` takes it over all displacements and pairs, and
``image_points`` makes images a kind of points, for which the functions of ``evaluate`` have
versions there; ``differences`` has those of ``gradient``.
"""

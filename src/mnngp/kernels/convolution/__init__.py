"""Kernels of convolutional networks: the covariance of every pair of positions, exactly.

``geometry`` says what a readout asks for, ``maps`` what each image has of its own, ``pictures`` is
the compiled pass, ``pairs`` takes it over all pairs of images, and ``images`` makes images a kind
of points, for which the functions of ``evaluate`` have versions here.
"""

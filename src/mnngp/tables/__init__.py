"""Tables as features: frames of pandas, polars and Arrow, and what their columns become.

``mnngp.data`` has the public names. All modules but ``groups`` and ``frames`` need polars.
"""

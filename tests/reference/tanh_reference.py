"""``E[tanh z tanh z']`` and ``E[sech² z sech² z']`` for any variances v, v' and correlation ρ = 1 -
2u: values for the tests.

By Fourier integrals, which have nothing in common with the library's series. With ``F(s) = πs /
sinh(πs/2)``, that of sech²,

    E[sech² z sech² z'] = 1/4π² ∫∫ F(s) F(t) exp(-(v s² + v' t² - 2 c s t)/2) ds dt,
    E[tanh z tanh z']   = 1/4π² ∫∫ F(s) F(t) exp(-(v s² + v' t²)/2) sinh(c s t)/(s t) ds dt,

c the covariance. In ``p, r = (√v s ± √v' t)/√2`` the exponent is ``-u p² - (1-u) r²``; p has the
scales 1, 1/√u and √v, so the trapezoidal rule runs over arsinh p (and arsinh r). Extended precision
(64 bits); two step sizes have to agree to 1e-16.

    python tests/reference/tanh_reference.py        # writes tanh_reference.json; a minute
"""

import json
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

VARIANCES = (0.04, 1.0, 30.0, 1e3, 1e6, 1e12)
DISTANCES = (0.0, 2.0**-80, 2.0**-40, 2.0**-20, 2.0**-10, 0.0625, 0.4375)
LONG = np.longdouble
PI = LONG("3.14159265358979323846264338327950288")


def transform(s):
    """``F(s)``."""
    x = np.abs(PI * s / 2)
    safe = np.where(x > 0, x, LONG(1))
    return np.where(x > 0, 4 * safe * np.exp(-safe) / -np.expm1(-2 * safe), LONG(2))


def integrals(v, w, u, step):
    """Both expectations, by the trapezoidal rule with a given step."""
    v, w, u, step = LONG(v), LONG(w), LONG(u), LONG(step)
    rho = 1 - 2 * u
    reach_p = 12 / np.sqrt(u) if u > 0 else LONG(np.inf)
    reach_p = np.arcsinh(min(reach_p, 80 * np.sqrt(max(v, w))))
    reach_r = np.arcsinh(LONG(13) / np.sqrt(1 - u))
    # Shifted by different parts of a step, so that no node has y = 0.
    p, r = (
        np.arange(-(x // step) - 1, x // step + 2) * step + step / shift
        for x, shift in ((reach_p, 3), (reach_r, 5))
    )
    moment = derivative = LONG(0)
    for part in np.array_split(r, max(1, len(r) // 16)):
        P, R = np.meshgrid(np.sinh(p), np.sinh(part))
        weight = np.outer(np.cosh(part), np.cosh(p)) * step * step / (4 * PI * PI)
        sigma, tau = (P + R) / np.sqrt(LONG(2)), (P - R) / np.sqrt(LONG(2))
        common = weight * transform(sigma / np.sqrt(v)) * transform(tau / np.sqrt(w))
        # By symmetry sinh(y)/y, y = ρστ, may be replaced by (e^y - sech y)/y = e^y tanh(y)/y, which
        # has one ridge and not two.
        y = rho * sigma * tau
        common *= np.exp(-u * P * P - (1 - u) * R * R)  # with exp(y)
        moment += rho * (common * np.tanh(y) / y).sum()
        derivative += common.sum() / np.sqrt(v * w)
    return moment, derivative


def main():
    values = []
    for v, w in combinations_with_replacement(VARIANCES, 2):
        for u in DISTANCES:
            coarse, fine = integrals(v, w, u, 0.027), integrals(v, w, u, 0.021)
            for one, other in zip(coarse, fine, strict=True):
                assert abs(one / other - 1) < 1e-15, (v, w, u, float(one / other - 1))
            moment, derivative = (np.format_float_scientific(x, precision=18) for x in fine)
            values.append({"v": v, "w": w, "u": u, "moment": moment, "derivative": derivative})
    path = Path(__file__).with_name("tanh_reference.json")
    path.write_text(json.dumps({"made_by": Path(__file__).name, "values": values}, indent=1) + "\n")


if __name__ == "__main__":
    main()

// One layer: F of a unit, as a distance (the package's activations/profile.py).
//
// With u = (1 - ρ)/2:  near half, ρ ≥ 0, s = √u:       F(1) - F(ρ) = 2 s² G(s)
//                      far half,  ρ ≤ 0, c = √(1 - u): F(ρ) - F(-1) = 2 c² H(c)
// so that 1 - ρ keeps its digits however deep the network is.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const LADDER = Math.SQRT1_2; // the ends of the intervals on which shorter series are kept
  const TOLERANCE = 2e-15;

  /** Σ_k c_k T_k(x), by Clenshaw's recurrence, in NumPy's order. */
  function chebyshev(coefficients, x) {
    const n = coefficients.length;
    if (n === 1) return coefficients[0];
    let c0 = coefficients[n - 2];
    let c1 = coefficients[n - 1];
    for (let k = n - 3; k >= 0; k--) {
      const before = c0;
      c0 = coefficients[k] - c1;
      c1 = before + 2 * x * c1;
    }
    return c0 + c1 * x;
  }

  class Series {
    constructor(coefficients, upper) {
      this.coefficients = Float64Array.from(coefficients);
      this.upper = upper;
      this.shorter = new Map();
    }

    at(s) {
      return chebyshev(this.coefficients, s * (2 / this.upper) - 1);
    }

    /** At √u for all of u. Two at a time: each term waits for the one before it. */
    atRoots(u, out) {
      const c = this.coefficients;
      const scale = 2 / this.upper;
      const top = c.length - 1;
      const paired = top < 2 ? 0 : u.length - (u.length % 2);
      for (let i = 0; i < paired; i += 2) {
        const x = Math.sqrt(u[i]) * scale - 1;
        const y = Math.sqrt(u[i + 1]) * scale - 1;
        let x0 = c[top - 1];
        let x1 = c[top];
        let y0 = x0;
        let y1 = x1;
        for (let k = top - 2; k >= 0; k--) {
          const xb = x0;
          const yb = y0;
          x0 = c[k] - x1;
          y0 = c[k] - y1;
          x1 = xb + 2 * x * x1;
          y1 = yb + 2 * y * y1;
        }
        out[i] = x0 + x1 * x;
        out[i + 1] = y0 + y1 * y;
      }
      for (let i = paired; i < u.length; i++) out[i] = this.at(Math.sqrt(u[i]));
    }

    /** The same function on [0, reach] or a little more, with fewer terms. */
    upTo(reach) {
      const steps = Math.floor(Math.log(reach / this.upper) / Math.log(LADDER) - 1e-9);
      if (!(steps > 0) || this.coefficients.length === 1) return this;
      const rung = Math.min(steps, 60);
      if (!this.shorter.has(rung)) {
        this.shorter.set(rung, this.restricted(this.upper * LADDER ** rung));
      }
      return this.shorter.get(rung);
    }

    restricted(upper) {
      const n = this.coefficients.length;
      const values = Array.from({ length: n }, (_, i) =>
        this.at((Math.cos((Math.PI * (i + 0.5)) / n) + 1) * (upper / 2))
      );
      const found = values.map((_, k) => {
        const sum = values.reduce((a, v, i) => a + v * Math.cos((Math.PI * k * (i + 0.5)) / n), 0);
        return (sum * (k ? 2 : 1)) / n;
      });
      const largest = Math.max(...found.map(Math.abs));
      let tail = 0;
      let keep = n;
      while (keep > 1 && tail + Math.abs(found[keep - 1]) <= TOLERANCE * largest) {
        tail += Math.abs(found[--keep]);
      }
      return new Series(found.slice(0, keep), upper);
    }
  }

  class Unit {
    constructor(name, data) {
      this.name = name;
      this.secondMoment = data.second_moment; // M = F(1)
      this.slopeAtOne = data.slope_at_one;
      this.fall = data.fall; // F(1) - F(-1)
      this.near = new Series(data.near, mnngp.upper);
      this.far = new Series(data.far, mnngp.upper);
      this.nearSlope = new Series(data.near_slope, mnngp.upper);
      this.farSlope = new Series(data.far_slope, mnngp.upper);
    }

    get criticalWeightVar() {
      return 1 / this.secondMoment;
    }

    /** F(1) - F(1 - 2u), to full relative accuracy as u → 0. */
    deficit(u) {
      if (u > 0.5) return this.fall - 2 * (1 - u) * this.far.at(Math.sqrt(1 - u));
      return 2 * u * this.near.at(Math.sqrt(u));
    }

    /** F'(1 - 2u): the probability that two argmaxes agree. */
    slope(u) {
      return u > 0.5 ? this.farSlope.at(Math.sqrt(1 - u)) : this.nearSlope.at(Math.sqrt(u));
    }

    moment(rho) {
      return this.secondMoment - this.deficit((1 - rho) / 2);
    }

    derivative(rho) {
      return this.slope((1 - rho) / 2);
    }

    /** `deficit` of all of u, none of which is above `reach`. */
    deficits(u, reach, out) {
      if (reach > 0.5) return void u.forEach((value, i) => (out[i] = this.deficit(value)));
      this.near.upTo(Math.sqrt(reach)).atRoots(u, out);
      for (let i = 0; i < u.length; i++) out[i] *= 2 * u[i];
    }

    /** `slope`, likewise. */
    slopes(u, reach, out) {
      if (reach > 0.5) return void u.forEach((value, i) => (out[i] = this.slope(value)));
      this.nearSlope.upTo(Math.sqrt(reach)).atRoots(u, out);
    }
  }

  const known = new Map();

  /** The unit of a name: "1" to "16" for maxout of that rank, or "relu". */
  mnngp.unit = function (name) {
    if (!known.has(name)) known.set(name, new Unit(name, mnngp.units[name]));
    return known.get(name);
  };
})();

// A network: distances and variances through its layers, and what they tend to
// (the package's kernels/pointwise.py, kernels/forward.py and theory.py).
//
// A network is { unit, depth, weightVar, biasVar, kind }, with kind "nngp" or "ntk". Points are
// { angle, square }: the direction of each, in the plane, and |x|²/d. Points of a line have the
// angles 0 and π.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const CRITICAL = 1e-9; // a slope this near to one is one

  mnngp.circle = (angles) => ({
    angle: Float64Array.from(angles),
    square: new Float64Array(angles.length).fill(1),
  });

  mnngp.line = (xs) => ({
    angle: Float64Array.from(xs, (x) => (x < 0 ? Math.PI : 0)),
    square: Float64Array.from(xs, (x) => x * x),
  });

  mnngp.joined = (a, b) => ({
    angle: Float64Array.of(...a.angle, ...b.angle),
    square: Float64Array.of(...a.square, ...b.square),
  });

  // what stands before the first affine map: the inputs themselves
  const LINEAR = mnngp.unit("1");

  /** What each layer does to each point, α, p and r, and the variances behind the last one. */
  function walk(network, square) {
    const { weightVar: w, biasVar: b } = network;
    const n = square.length;
    const sorted = Float64Array.from(square).sort();
    let reference = sorted[n >> 1];
    let variance = Float64Array.from(square);
    // In the ordered phase all variances run into one, and differences of rounded numbers would be
    // noise: the deviation from a reference point is carried as a number of its own.
    let deviation = variance.map((v) => v - reference);
    let tangent = new Float64Array(n); // Θ_ii / K_ii
    const steps = [];
    for (let layer = 0; layer <= network.depth; layer++) {
      const unit = layer ? network.unit : LINEAR;
      const M = unit.secondMoment;
      const next = b + w * M * reference;
      const root = Math.sqrt(next) || 1;
      const alphaReference = Math.sqrt(w * reference) / root;
      const step = {
        unit,
        alpha: new Float64Array(n),
        p: new Float64Array(n),
        r: new Float64Array(n),
      };
      for (let i = 0; i < n; i++) {
        const own = Math.sqrt(b + w * M * variance[i]) || 1;
        const alpha = Math.sqrt(w * variance[i]) / own;
        const product = own * root;
        const apart = Math.max(alpha + alphaReference, Number.MIN_VALUE);
        step.alpha[i] = alpha;
        step.r[i] = (Math.sqrt(M) * w * (b / product) * (deviation[i] / product)) / apart / 2;
        deviation[i] *= w * M;
        step.p[i] = (-(deviation[i] / product) * (Math.sqrt(b) / (own + root))) / 2;
        variance[i] = b + w * M * variance[i];
        tangent[i] = 1 + alpha * alpha * unit.slopeAtOne * tangent[i];
      }
      reference = next;
      steps.push(step);
    }
    return { steps, variance, tangent };
  }

  /** u = (1 - ρ)/2 of the outputs for the pairs (first[k], second[k]) of points, and each point's
   *  standard deviation. Of the tangent kernel, ρ is Θ_ij / √(Θ_ii Θ_jj). */
  mnngp.distances = function (network, points, first, second) {
    const { steps, variance, tangent } = walk(network, points.square);
    const ntk = network.kind === "ntk";
    const count = first.length;
    const u = new Float64Array(count);
    const t = new Float64Array(ntk ? count : 0);
    let reach = 0;
    for (let k = 0; k < count; k++) {
      const sine = Math.sin((points.angle[first[k]] - points.angle[second[k]]) / 2);
      u[k] = sine * sine;
      reach = Math.max(reach, u[k]);
    }
    const deficit = new Float64Array(count);
    const slope = new Float64Array(t.length);
    for (const { unit, alpha, p, r } of steps) {
      unit.deficits(u, reach, deficit);
      if (ntk) unit.slopes(u, reach, slope);
      reach = 0;
      for (let k = 0; k < count; k++) {
        const i = first[k];
        const j = second[k];
        const both = alpha[i] * alpha[j];
        const pp = p[i] - p[j];
        const rr = r[i] - r[j];
        u[k] = pp * pp + rr * rr + 0.5 * both * deficit[k];
        if (ntk) t[k] = 1 - 2 * u[k] + both * slope[k] * t[k];
        if (u[k] > reach) reach = u[k];
      }
    }
    if (!ntk) return { u, deviation: variance.map(Math.sqrt) };
    for (let k = 0; k < count; k++) {
      const rho = t[k] / Math.sqrt(tangent[first[k]] * tangent[second[k]]);
      u[k] = Math.max(0, (1 - rho) / 2);
    }
    return { u, deviation: variance.map((v, i) => Math.sqrt(v * tangent[i])) };
  };

  /** All pairs of n points, i < j, and the symmetric matrix of numbers that belong to them. */
  mnngp.pairs = function (n) {
    const first = new Int32Array((n * (n - 1)) / 2);
    const second = new Int32Array(first.length);
    for (let i = 0, k = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++, k++) {
        first[k] = i;
        second[k] = j;
      }
    }
    const matrix = (values) => {
      const rows = Array.from({ length: n }, () => new Float64Array(n));
      for (let k = 0; k < first.length; k++) {
        rows[first[k]][second[k]] = rows[second[k]][first[k]] = values[k];
      }
      return rows;
    };
    return { first, second, matrix };
  };

  /** The kernel matrix of points with themselves. */
  mnngp.kernel = function (network, points) {
    const pairs = mnngp.pairs(points.square.length);
    const { u, deviation } = mnngp.distances(network, points, pairs.first, pairs.second);
    return pairs
      .matrix(u)
      .map((row, i) => row.map((value, j) => deviation[i] * deviation[j] * (1 - 2 * value)));
  };

  /** w v / v' of two points of variance v, with its limits at zero (then b = 0) and infinity. */
  const factor = (network, v) =>
    network.weightVar /
    ((network.biasVar === 0 || v === Infinity ? 0 : network.biasVar / v) +
      network.weightVar * network.unit.secondMoment);

  /** Where a deep network ends up, as theory.fixed_point says it. */
  mnngp.fixedPoint = function (network) {
    const { unit, weightVar: w, biasVar: b } = network;
    const varianceSlope = w * unit.secondMoment;
    const gradientSlope = w * unit.slopeAtOne;
    let variance = b === 0 && varianceSlope <= 1 + CRITICAL ? 1 : Infinity;
    if (varianceSlope < 1 - CRITICAL) variance = b / (1 - varianceSlope);
    const larger = Math.max(varianceSlope, gradientSlope);
    let phase = larger < 1 ? "ordered" : "chaotic";
    if (Math.abs(larger - 1) <= CRITICAL) phase = "critical";
    return {
      variance,
      varianceSlope,
      gradientSlope,
      correlationSlope: factor(network, variance) * unit.slopeAtOne,
      // F'(1) ≤ F(1) for all units here, and F is convex: there is no other, from rank 2 on
      correlation: 1,
      phase,
    };
  };

  /** 1 - ρ' behind a layer from 1 - ρ before it, at the variance v. */
  mnngp.distanceMap = (network, gap, v) => factor(network, v) * network.unit.deficit(gap / 2);

  /** Two inputs of |x|²/d = 1 and a correlation, behind layer 0 (the first affine map) to depth. */
  mnngp.depthProfile = function (network, correlation) {
    const { unit, weightVar: w, biasVar: b, depth } = network;
    const variance = [b + w];
    const distance = [(w * (1 - correlation)) / (b + w)];
    for (let layer = 0; layer < depth; layer++) {
      distance.push(mnngp.distanceMap(network, distance[layer], variance[layer]));
      variance.push(b + w * unit.secondMoment * variance[layer]);
    }
    const gradient = variance.map((_, layer) => (w * unit.slopeAtOne) ** (depth - layer));
    return { variance, distance, gradient };
  };
})();

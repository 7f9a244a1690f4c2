// Inference: the posterior of a few targets, and functions drawn from the prior
// (the package's inference/posterior.py and inference/solvers/covariance.py).
var mnngp = mnngp || {};

(function () {
  "use strict";

  /** The lower Cholesky factor of a matrix (rows), in place; null if it is not positive definite.
   *  With a tolerance, pivots at or below it are zero, and so are their columns. */
  function cholesky(a, tolerance) {
    const n = a.length;
    for (let j = 0; j < n; j++) {
      const row = a[j];
      let pivot = row[j];
      for (let k = 0; k < j; k++) pivot -= row[k] * row[k];
      if (tolerance === undefined && !(pivot > 0)) return null;
      const root = pivot > (tolerance || 0) ? Math.sqrt(pivot) : 0;
      row[j] = root;
      for (let i = j + 1; i < n; i++) {
        const below = a[i];
        let sum = below[j];
        for (let k = 0; k < j; k++) sum -= below[k] * row[k];
        below[j] = root ? sum / root : 0;
      }
    }
    return a;
  }

  function forward(L, b) {
    const x = Float64Array.from(b);
    for (let i = 0; i < x.length; i++) {
      for (let k = 0; k < i; k++) x[i] -= L[i][k] * x[k];
      x[i] /= L[i][i];
    }
    return x;
  }

  function solve(L, b) {
    const x = forward(L, b);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let k = i + 1; k < x.length; k++) x[i] -= L[k][i] * x[k];
      x[i] /= L[i][i];
    }
    return x;
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const dot = (a, b) => sum(a.map((value, i) => value * b[i]));

  /** A = 1 - 2u/κ with something on the diagonal; points without variance are alone. */
  const scaled = (u, kappa, diagonal, alive) =>
    u.map((row, i) =>
      row.map((value, j) =>
        i === j ? 1 + diagonal[i] : alive[i] && alive[j] ? 1 - (2 * value) / kappa : 0
      )
    );

  /** κ: of the size of the largest distance where the network moves all points together. */
  function contraction(network, u, alive) {
    const n = u.length;
    const largest = Math.max(0, ...u.map((row) => Math.max(...row)));
    if (network.kind === "ntk" || n < 2 || !alive.every(Boolean) || largest < 1e-290) return 1;
    const little = new Float64Array(n).fill(1e-10);
    let kappa = 4 * largest;
    while (kappa < 1 && !cholesky(scaled(u, kappa, little, alive))) kappa *= 4;
    return Math.min(1, kappa);
  }

  /** The posterior of the function at `places`, given targets at `data`: mean, variance and the
   *  log evidence. The kernel is multiplied by `signalVar`. */
  mnngp.posterior = function (network, data, targets, places, noiseVar, signalVar) {
    const n = targets.length;
    const m = places.square.length;
    const points = mnngp.joined(data, places);
    const inner = mnngp.pairs(n);
    const first = new Int32Array(inner.first.length + n * m);
    const second = new Int32Array(first.length);
    first.set(inner.first);
    second.set(inner.second);
    for (let i = 0, k = inner.first.length; i < n; i++) {
      for (let j = 0; j < m; j++, k++) {
        first[k] = i;
        second[k] = n + j;
      }
    }
    const { u, deviation } = mnngp.distances(network, points, first, second);
    const sigma = deviation.map((value) => Math.sqrt(signalVar) * value);
    const alive = Array.from(sigma, (value) => value > 0);
    const known = inner.matrix(u);
    const scale = Array.from({ length: n }, (_, i) => sigma[i] || 1);

    let kappa = contraction(network, known, alive.slice(0, n));
    const factored = () =>
      cholesky(
        scaled(
          known,
          kappa,
          scale.map((s) => noiseVar / (kappa * s * s)),
          alive
        )
      );
    let L = factored();
    while (!L && kappa < 1) {
      kappa = Math.min(1, 16 * kappa);
      L = factored();
    }
    if (!L) return null;

    const z = targets.map((y, i) => y / scale[i]);
    const t = solve(L, new Float64Array(n).fill(1));
    let alpha = solve(L, z);
    const c = kappa < 1 ? sum(t) + kappa / (1 - kappa) : Infinity;
    const beta = sum(alpha) / c;
    alpha = alpha.map((value, i) => value - t[i] * beta);

    const mean = new Float64Array(m);
    const variance = new Float64Array(m);
    const column = new Float64Array(n);
    for (let j = 0; j < m; j++) {
      for (let i = 0; i < n; i++) {
        const both = alive[i] && alive[n + j];
        column[i] = both ? 1 - (2 * u[inner.first.length + i * m + j]) / kappa : 0;
      }
      const half = forward(L, column);
      const rest = 1 - dot(column, t);
      mean[j] = sigma[n + j] * (beta + dot(column, alpha));
      const share = 1 - dot(half, half) + (rest * rest) / c;
      variance[j] = kappa * sigma[n + j] ** 2 * Math.max(share, 0);
    }

    let logDeterminant = n * Math.log(kappa);
    for (let i = 0; i < n; i++) logDeterminant += 2 * Math.log(L[i][i]) + 2 * Math.log(scale[i]);
    if (kappa < 1) logDeterminant += Math.log1p(((1 - kappa) / kappa) * sum(t));
    const logEvidence = -0.5 * (dot(alpha, z) / kappa + logDeterminant + n * Math.log(2 * Math.PI));
    return { mean, variance, logEvidence, contraction: kappa };
  };

  /** Indices 0 … n-1, the coarse before the fine: what is drawn first has the shape, and a curve
   *  moves little when the kernel does. */
  function coarseFirst(n) {
    const key = (i) => {
      let value = 0;
      for (let bit = 0.5, rest = i + 1; rest; rest >>= 1, bit /= 2) value += bit * (rest & 1);
      return Math.min(n - 1, Math.floor(value * n));
    };
    const seen = new Set();
    for (let i = 0; seen.size < n; i++) seen.add(key(i));
    return Int32Array.from(seen);
  }

  /** A function from n independent Gaussians to a draw of the process at n points, from the
   *  matrix u of their distances and their standard deviations.
   *
   *  The first step of the Cholesky factorisation of 1 - 2u is taken on paper: what is left,
   *  2 (u_i0 + u_0j - u_ij) - 4 u_i0 u_0j, is of the size of u and has its digits. */
  mnngp.sampler = function (u, deviation) {
    const n = deviation.length;
    const order = coarseFirst(n);
    const start = order[0];
    const rest = Array.from(order.slice(1), (i) => {
      const a = u[i][start];
      return Float64Array.from(order.slice(1), (j) => {
        const b = u[start][j];
        return 2 * (a + b - u[i][j]) - 4 * a * b;
      });
    });
    const largest = Math.max(0, ...rest.map((row, i) => row[i]));
    const L = cholesky(rest, 1e-14 * largest);
    return (z) => {
      const f = new Float64Array(n);
      f[start] = deviation[start] * z[0];
      for (let a = 1; a < n; a++) {
        const i = order[a];
        let value = (1 - 2 * u[i][start]) * z[0];
        for (let k = 0; k < a; k++) value += L[a - 1][k] * z[k + 1];
        f[i] = deviation[i] * value;
      }
      return f;
    };
  };

  /** Independent Gaussians that are the same for the same seed (mulberry32, Box and Muller). */
  mnngp.gaussians = function (seed, count) {
    let state = seed >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
    };
    return Float64Array.from(
      { length: count },
      () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    );
  };
})();

// Correlations of the columns from the released matrix, and what its noise makes of each, to first order.
// In scaled coordinates, with p_i = e_i - m_i e_0, noise E moves a covariance by (p_i' E p_j - C_ij E_00)/n.

const ROUNDING = 1e-12; // of a variance: what is below is none

// Of the first columns, as many as are shown.
function correlate(moments, most = Infinity) {
  const { scaled, noise } = moments,
    rows = scaled[0][0],
    width = Math.min(scaled.length - 1, most);
  const means = Float64Array.from({ length: width }, (_, i) => scaled[0][i + 1] / rows);
  const covariance = zeros(width, width).map((row, i) =>
    row.map((_, j) => scaled[i + 1][j + 1] / rows - means[i] * means[j]),
  );
  const variance = covariance.map((row, i) => (row[i] > 0 ? row[i] : NaN));
  const { entry, own, between } = centredNoise(scaled, noise, means);
  const value = zeros(width, width),
    std = zeros(width, width);
  for (let i = 0; i < width; i += 1) {
    for (let j = 0; j < width; j += 1) {
      const scale = Math.sqrt(variance[i] * variance[j]),
        r = covariance[i][j] / scale;
      const alone = entry(i, j) / scale ** 2;
      const moved =
        alone +
        (r ** 2 / 4) *
          (entry(i, i) / variance[i] ** 2 +
            entry(j, j) / variance[j] ** 2 +
            (2 * between(i, j)) / (variance[i] * variance[j])) -
        (r * (own(i, j) / variance[i] + own(j, i) / variance[j])) / scale;
      value[i][j] = r;
      std[i][j] = i === j ? (Number.isNaN(scale) ? NaN : 0) : Math.sqrt(moved < ROUNDING * alone ? 0 : moved) / Math.abs(rows);
    }
  }
  return { value, std };
}

// Covariances of N_ij = p_i' E p_j: of an entry, of it with its own variance (of i), of two variances.
function centredNoise(scaled, noise, means) {
  if (noise.known) return knownCentred(scaled, noise, means);
  const { inner, atMeans, atOwn } = innerNoise(scaled, noise, means);
  return {
    entry: (i, j) =>
      inner[i][i] * inner[j][j] + inner[i][j] ** 2 + atMeans * (means[i] * means[j]) ** 2 + (i === j ? atOwn : 0),
    own: (i, j) => 2 * inner[i][i] * inner[i][j] + atMeans * means[i] ** 3 * means[j] + (i === j ? atOwn : 0),
    between: (i, j) => 2 * inner[i][j] ** 2 + atMeans * (means[i] * means[j]) ** 2 + (i === j ? atOwn : 0),
  };
}

// From Cov(E p_j) and Cov(E, p_j' E p_j), one column after the other.
function knownCentred(scaled, noise, means) {
  const width = means.length,
    centre = (i) => Float64Array.from(scaled, (_, k) => (k === 0 ? -means[i] : k === i + 1 ? 1 : 0));
  const [entries, owns, betweens] = [0, 1, 2].map(() => zeros(width, width));
  // p_i has two numbers that are not 0.
  const form = (matrix, i, j) =>
    matrix[i + 1][j + 1] - means[i] * matrix[0][j + 1] - means[j] * matrix[i + 1][0] + means[i] * means[j] * matrix[0][0];
  for (let j = 0; j < width; j += 1) {
    const along = noiseAlong(noise, centre(j), scaled),
      beside = noiseBeside(noise, centre(j));
    for (let i = 0; i < width; i += 1) {
      entries[j][i] = form(along, i, i);
      owns[j][i] = form(beside, i, j);
      betweens[j][i] = form(beside, i, i);
    }
  }
  const at = (found) => (i, j) => found[i][j];
  return { entry: at(entries), own: at(owns), between: at(betweens) };
}

function innerNoise(scaled, noise, means) {
  const width = means.length;
  if (noise.model === "additive") {
    const off = noise.off_diagonal_std ** 2,
      diagonal = noise.diagonal_std ** 2,
      count = noise.count_is_exact ? 0 : diagonal;
    const inner = zeros(width, width).map((row, i) =>
      row.map((_, j) => noise.off_diagonal_std * ((i === j ? 1 : 0) + means[i] * means[j])),
    );
    return { inner, atMeans: count - 2 * off, atOwn: diagonal - 2 * off };
  }
  const around = aroundOf(noise, scaled),
    centre = zeros(scaled.length, width);
  for (let i = 0; i < width; i += 1) {
    centre[0][i] = -means[i];
    centre[i + 1][i] = 1;
  }
  const inner = congruent(around, centre).map((row) => row.map((value) => value / Math.sqrt(noise.degrees)));
  return { inner, atMeans: 0, atOwn: 0 };
}

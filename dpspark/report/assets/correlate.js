// Correlations of the columns from the released matrix, and what its noise makes of each, to first order.
// In scaled coordinates, with p_i = e_i - m_i e_0, noise E moves a covariance by (p_i' E p_j - C_ij E_00)/n.

function correlate(moments) {
  const { scaled, noise } = moments,
    rows = scaled[0][0],
    width = scaled.length - 1;
  const means = Float64Array.from({ length: width }, (_, i) => scaled[0][i + 1] / rows);
  const covariance = zeros(width, width).map((row, i) =>
    row.map((_, j) => scaled[i + 1][j + 1] / rows - means[i] * means[j]),
  );
  const variance = covariance.map((row, i) => (row[i] > 0 ? row[i] : NaN));
  const { inner, atMeans, atOwn } = centredNoise(scaled, noise, means);
  // Covariances of N_ij = p_i' E p_j: of an entry, of it with its own variance, of two variances.
  const entry = (i, j) =>
    inner[i][i] * inner[j][j] + inner[i][j] ** 2 + atMeans * (means[i] * means[j]) ** 2 + (i === j ? atOwn : 0);
  const own = (i, j) => 2 * inner[i][i] * inner[i][j] + atMeans * means[i] ** 3 * means[j] + (i === j ? atOwn : 0);
  const between = (i, j) => 2 * inner[i][j] ** 2 + atMeans * (means[i] * means[j]) ** 2 + (i === j ? atOwn : 0);
  const value = zeros(width, width),
    std = zeros(width, width);
  for (let i = 0; i < width; i += 1) {
    for (let j = 0; j < width; j += 1) {
      const scale = Math.sqrt(variance[i] * variance[j]),
        r = covariance[i][j] / scale;
      const moved =
        entry(i, j) / scale ** 2 +
        (r ** 2 / 4) *
          (entry(i, i) / variance[i] ** 2 +
            entry(j, j) / variance[j] ** 2 +
            (2 * between(i, j)) / (variance[i] * variance[j])) -
        (r * (own(i, j) / variance[i] + own(j, i) / variance[j])) / scale;
      value[i][j] = r;
      std[i][j] = i === j ? (Number.isNaN(scale) ? NaN : 0) : Math.sqrt(Math.max(moved, 0)) / Math.abs(rows);
    }
  }
  return { value, std };
}

function centredNoise(scaled, noise, means) {
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
  const around = withRidge(scaled, noise.ridge),
    centre = zeros(width + 1, width);
  for (let i = 0; i < width; i += 1) {
    centre[0][i] = -means[i];
    centre[i + 1][i] = 1;
  }
  const inner = congruent(around, centre).map((row) => row.map((value) => value / Math.sqrt(noise.degrees)));
  return { inner, atMeans: 0, atOwn: 0 };
}

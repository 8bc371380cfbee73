// The noise of a released matrix, less what is known of its categorical columns: what dpspark.mechanisms.gram has.
// A factor F is an array of rows, one for each term of the matrix.

// E[E F F' E], E the noise matrix.
function noiseSpread(noise, factor, scaled) {
  if (noise.model === "sampling") {
    const around = aroundOf(noise, scaled),
      turned = times(around, factor),
      square = turned.reduce((sum, row, i) => sum + dot(row, factor[i]), 0),
      moved = times(turned, transpose(turned));
    return around.map((row, i) => row.map((value, j) => (value * square + moved[i][j]) / noise.degrees));
  }
  if (noise.turn) {
    const turned = noiseSpread(straight(noise), times(transpose(noise.turn), factor), scaled);
    return congruent(turned, transpose(noise.turn));
  }
  if (noise.known && noise.known.where) return tablesSpread(noise, factor);
  if (noise.known) return noise.known.totals ? totalsSpread(noise, factor) : separateSpread(noise, factor);
  const found = plainSpread(noise, times(factor, transpose(factor)));
  if (noise.count_is_exact) found[0][0] -= noise.diagonal_std ** 2 * dot(factor[0], factor[0]);
  return found;
}

const noiseAlong = (noise, w, scaled) =>
  noiseSpread(
    noise,
    Array.from(w, (value) => Float64Array.of(value)),
    scaled,
  );

const withRidge = (scaled, ridge) => scaled.map((row, i) => row.map((value, j) => value + (i === j ? ridge : 0)));

// What a matrix with noise that grows with it was drawn around, in the coordinates of analyses.
function aroundOf(noise, scaled) {
  if (!noise.turn) return withRidge(scaled, noise.ridge);
  const square = times(noise.turn, transpose(noise.turn));
  return scaled.map((row, i) => row.map((value, j) => value + noise.ridge * square[i][j]));
}

// The noise in the release's own coordinates: those of analyses are its turn of them.
function straight(noise) {
  if (!noise.straight) noise.straight = { ...noise, turn: null };
  return noise.straight;
}

// Independent noise on each entry of the upper triangle; `middle` is F F'.
function plainSpread(noise, middle) {
  const off = noise.off_diagonal_std ** 2,
    own = noise.diagonal_std ** 2,
    trace = middle.reduce((sum, row, i) => sum + row[i], 0);
  return middle.map((row, i) =>
    row.map((value, j) => off * value + (i === j ? off * trace + (own - 2 * off) * value : 0)),
  );
}

// What follows from the blocks alone: see dpspark.core.known.
function knownParts(noise, width) {
  if (noise.parts) return noise.parts;
  const { blocks } = noise.known,
    off = noise.off_diagonal_std ** 2,
    p = off / noise.diagonal_std ** 2,
    block = new Array(width).fill(-1),
    q = new Float64Array(width);
  q[0] = 1;
  blocks.forEach((places, a) => {
    for (const place of places) [block[place], q[place]] = [a, 1 / places.length];
  });
  const each = blocks.map((places) => 1 / places.length),
    sum = each.reduce((a, b) => a + b, 0),
    pairs = (sum ** 2 - each.reduce((a, b) => a + b * b, 0)) / 2;
  const at = blocks.flat(),
    numbers = block.map((a, i) => (a < 0 && i > 0 ? i : -1)).filter((i) => i > 0);
  noise.parts = {
    block,
    q,
    at,
    numbers,
    off,
    p,
    seen: 1 + sum, // how often a number's sum is seen
    margins: each.map((part) => 1 + p + sum - part), // a block's margins
    total: p + (1 + p) * sum + pairs, // the number of rows
  };
  return noise.parts;
}

const centringOf = ({ block, q }, i, j) => (block[i] === block[j] ? (i === j ? 1 : 0) - q[i] : 0);

// Without the totals: entry by entry, and S_0c = S_cc once.
function separateSpread(noise, factor) {
  const width = factor.length,
    parts = knownParts(noise, width),
    { block, at, off } = parts,
    own = noise.diagonal_std ** 2,
    together = noise.known.diagonal,
    middle = times(factor, transpose(factor)),
    found = zeros(width, width);
  const variance = (i, j) => {
    if (i === 0 && j === 0) return noise.count_is_exact ? 0 : own;
    if (together && (i === j || i === 0 || j === 0) && (block[i] >= 0 || block[j] >= 0)) return 0;
    if (i === j) return own;
    return block[i] >= 0 && block[i] === block[j] ? 0 : off;
  };
  for (let i = 0; i < width; i += 1) {
    for (let j = 0; j < width; j += 1) {
      if (i !== j) found[i][j] = variance(i, j) * middle[i][j];
      found[i][i] += variance(i, j) * middle[j][j];
    }
  }
  const both = (off * own) / (off + own);
  for (const c of together ? at : []) {
    found[0][0] += both * middle[c][c];
    found[0][c] += both * (middle[0][c] + middle[c][c]);
    found[c][0] += both * (middle[0][c] + middle[c][c]);
    found[c][c] += both * (middle[0][0] + 2 * middle[0][c] + middle[c][c]);
  }
  return found;
}

// With the totals: the number of rows, the blocks' margins, the rest of their tables and the numbers' rows, each by itself.
function totalsSpread(noise, factor) {
  const width = factor.length,
    parts = knownParts(noise, width),
    { block, q, at, numbers, off, seen } = parts,
    places = [0, ...at],
    found = zeros(width, width),
    count = noise.count_is_exact ? 0 : off / parts.total,
    margin = parts.margins.map((times_seen) => off / times_seen);
  const s = Float64Array.from(factor[0], (value, r) => at.reduce((sum, c) => sum + q[c] * factor[c][r], value));
  const means = noise.known.blocks.map((own) =>
    s.map((_, r) => own.reduce((sum, c) => sum + factor[c][r], 0) / own.length),
  );
  const x = [],
    g = [];
  for (const c of at) {
    x[c] = factor[c].map((value, r) => value - means[block[c]][r]);
    g[c] = x[c].map((value, r) => value + s[r]);
  }
  const squares = noise.known.blocks.map((own) => own.reduce((sum, c) => sum + dot(x[c], x[c]), 0)),
    all = squares.reduce((a, b) => a + b, 0),
    beside = squares.map((value, a) => value * margin[a]),
    allBeside = beside.reduce((a, b) => a + b, 0),
    size = numbers.reduce((sum, i) => sum + dot(factor[i], factor[i]), 0);
  const moved = [];
  for (const i of places) moved[i] = i ? g[i].map((value) => q[i] * value) : s;
  const across = at.reduce((sum, c) => ((sum[c] = margin[block[c]] * dot(x[c], g[c])), sum), []);
  const elsewhere = (i, j) => {
    let sum = allBeside;
    if (i) sum -= beside[block[i]];
    if (j && block[j] !== block[i]) sum -= beside[block[j]];
    return sum;
  };
  for (const i of places) {
    for (const j of places) {
      let value = count * dot(moved[i], moved[j]) + q[i] * q[j] * (elsewhere(i, j) + (off * size) / seen);
      if (j && block[i] !== block[j]) value += q[i] * across[j];
      if (i && block[i] !== block[j]) value += q[j] * across[i];
      if (i && j) {
        const a = block[i];
        if (a === block[j]) {
          const inside = margin[a] * dot(g[i], g[j]) + off * (all - squares[a]) + off * size;
          value += centringOf(parts, i, j) * inside;
        } else value += off * dot(x[i], x[j]);
      }
      found[i][j] = value;
    }
  }
  const share = all + dot(s, s) / seen;
  for (const i of numbers) {
    for (const j of places) {
      const turned = s.map((value, r) => (q[j] * value) / seen + (j ? x[j][r] : 0));
      found[i][j] = found[j][i] = off * dot(factor[i], turned);
    }
  }
  const rows = numbers.map((i) => factor[i]);
  const inner = rows.length ? plainSpread(noise, times(rows, transpose(rows))) : [];
  numbers.forEach((i, k) =>
    numbers.forEach((j, l) => {
      found[i][j] = inner[k][l] + (k === l ? off * share : 0);
    }),
  );
  return found;
}

// The facts put into a symmetric matrix: generalised least squares.
function putKnown(noise, matrix) {
  if (noise.known.where) return putTables(noise, matrix);
  const width = matrix.length,
    parts = knownParts(noise, width),
    { block, q, at, numbers, p, seen } = parts,
    found = matrix.map((row) => Float64Array.from(row)),
    apart = (i, j) => block[i] !== block[j];
  for (const i of at) for (const j of at) if (!apart(i, j) && i !== j) found[i][j] = 0;
  if (!noise.known.totals) {
    for (const c of noise.known.diagonal ? at : [])
      found[0][c] = found[c][0] = found[c][c] = (matrix[0][c] + p * matrix[c][c]) / (1 + p);
    return found;
  }
  const margins = at.map((c) => at.reduce((sum, d) => sum + (apart(c, d) ? matrix[c][d] * q[d] : 0), 0));
  const sums = at.map((c) => matrix[0][c] + p * matrix[c][c]);
  let n = matrix[0][0];
  if (!noise.count_is_exact)
    n = at.reduce((sum, c, k) => sum + (sums[k] + margins[k] / 2) * q[c], p * n) / parts.total;
  const phi = [];
  noise.known.blocks.forEach((own, a) => {
    const seenHere = own.map((c) => sums[at.indexOf(c)] + margins[at.indexOf(c)]),
      mean = seenHere.reduce((x, y) => x + y, 0) / own.length;
    own.forEach((c, k) => (phi[c] = (seenHere[k] - mean) / parts.margins[a]));
  });
  const centred = (row) => {
    const means = noise.known.blocks.map((own) => own.reduce((sum, c) => sum + row[c], 0) / own.length);
    return (c) => row[c] - means[block[c]];
  };
  const rowMeans = noise.known.blocks.map((own) =>
    Float64Array.from({ length: width }, (_, j) => own.reduce((sum, c) => sum + found[c][j], 0) / own.length),
  );
  const meanRows = rowMeans.map(centred);
  for (const c of at) {
    const row = centred(matrix[c]);
    for (const d of at) {
      if (!apart(c, d)) continue;
      found[c][d] = row(d) - meanRows[block[c]](d) + phi[c] * q[d] + q[c] * phi[d] + n * q[c] * q[d];
    }
    found[c][c] = found[0][c] = found[c][0] = phi[c] + n * q[c];
  }
  found[0][0] = n;
  for (const i of numbers) {
    const row = centred(matrix[i]),
      sum = at.reduce((total, c) => total + matrix[i][c] * q[c], matrix[0][i]) / seen;
    for (const c of at) found[i][c] = found[c][i] = row(c) + sum * q[c];
    found[0][i] = found[i][0] = sum;
  }
  return found;
}

// Cov(E, v' E v) of what is left of the noise.
function noiseBeside(noise, v) {
  if (noise.turn) return congruent(noiseBeside(straight(noise), timesVector(transpose(noise.turn), v)), transpose(noise.turn));
  const off = noise.off_diagonal_std ** 2,
    own = noise.diagonal_std ** 2;
  const whole = Array.from(v, (a, i) =>
    Float64Array.from(v, (b, j) => (i === j ? own * a * a * (i === 0 && noise.count_is_exact ? 0 : 1) : 2 * off * a * b)),
  );
  return putKnown(noise, whole);
}

// The typical norm of the noise among some directions.
function noiseSize(noise, directions, least) {
  return noise.model === "sampling"
    ? 2 * Math.sqrt(directions / noise.degrees) * Math.max(least + noise.ridge, noise.ridge)
    : 2 * noise.off_diagonal_std * Math.sqrt(directions);
}

// The little linear algebra that least squares needs. A matrix is an array of rows.

const zeros = (rows, columns) => Array.from({ length: rows }, () => new Float64Array(columns));
const transpose = (a) => (a[0] ? Array.from(a[0], (_, j) => Float64Array.from(a, (row) => row[j])) : []);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const timesVector = (a, v) => Float64Array.from(a, (row) => dot(row, v));

function times(a, b) {
  const columns = b[0].length,
    found = zeros(a.length, columns);
  for (let i = 0; i < a.length; i += 1) {
    for (let k = 0; k < b.length; k += 1) {
      const factor = a[i][k];
      if (factor !== 0) for (let j = 0; j < columns; j += 1) found[i][j] += factor * b[k][j];
    }
  }
  return found;
}

// b' a b
const congruent = (a, b) => times(transpose(b), times(a, b));

// Goodnight (1979): [[A, b], [b', c]] becomes [[-inv(A), inv(A) b], [b' inv(A), c - b' inv(A) b]].
function sweep(matrix, pivots) {
  const swept = matrix.map((row) => Float64Array.from(row)),
    size = swept.length;
  for (let k = 0; k < pivots; k += 1) {
    const pivot = swept[k][k],
      row = swept[k].map((value) => value / pivot);
    const column = swept.map((r) => r[k]);
    for (let i = 0; i < size; i += 1) for (let j = 0; j < size; j += 1) swept[i][j] -= column[i] * row[j];
    for (let j = 0; j < size; j += 1) {
      swept[k][j] = row[j];
      swept[j][k] = row[j];
    }
    swept[k][k] = -1 / pivot;
  }
  return swept;
}

// An orthonormal basis of the columns: Gram and Schmidt, twice, which is as good as Householder's.
function orthonormal(matrix) {
  const basis = [];
  for (const column of transpose(matrix)) {
    for (let pass = 0; pass < 2; pass += 1) {
      for (const other of basis) {
        const along = dot(column, other);
        for (let i = 0; i < column.length; i += 1) column[i] -= along * other[i];
      }
    }
    const length = Math.hypot(...column);
    basis.push(column.map((value) => value / length));
  }
  return transpose(basis);
}

// The least eigenvalue of a symmetric matrix: Householder's tridiagonal form, then halving by Sturm's count.
function leastEigenvalue(symmetric) {
  const [diagonal, off] = tridiagonal(symmetric),
    n = diagonal.length;
  let low = Infinity,
    high = Infinity;
  for (let i = 0; i < n; i += 1) {
    const radius = Math.abs(i ? off[i - 1] : 0) + Math.abs(i < n - 1 ? off[i] : 0);
    low = Math.min(low, diagonal[i] - radius);
    high = Math.min(high, diagonal[i]);
  }
  const below = (x) => {
    let pivot = 1;
    for (let i = 0; i < n; i += 1) {
      pivot = diagonal[i] - x - (i ? off[i - 1] ** 2 / pivot : 0);
      if (pivot < 0) return true;
      if (pivot === 0) pivot = Number.MIN_VALUE;
    }
    return false;
  };
  for (let i = 0; i < 2000; i += 1) {
    const middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    if (below(middle)) high = middle;
    else low = middle;
  }
  return low + (high - low) / 2;
}

function tridiagonal(symmetric) {
  const a = symmetric.map((row) => Float64Array.from(row)),
    n = a.length,
    off = new Float64Array(Math.max(0, n - 1));
  for (let k = 0; k < n - 2; k += 1) {
    const v = Float64Array.from({ length: n }, (_, i) => (i > k ? a[i][k] : 0));
    const length = Math.hypot(...v);
    off[k] = v[k + 1] > 0 ? -length : length;
    if (length === 0) continue;
    v[k + 1] -= off[k];
    const square = dot(v, v);
    if (square === 0) continue;
    // a becomes (1 - 2vv'/v'v) a (1 - 2vv'/v'v) = a - vw' - wv'
    const p = timesVector(a, v).map((value) => (2 * value) / square),
      half = dot(v, p) / square;
    const w = p.map((value, i) => value - half * v[i]);
    for (let i = k; i < n; i += 1) for (let j = k; j < n; j += 1) a[i][j] -= v[i] * w[j] + w[i] * v[j];
  }
  if (n > 1) off[n - 2] = a[n - 1][n - 2];
  return [Float64Array.from(a, (row, i) => row[i]), off];
}

const largestEigenvalue = (symmetric) => -leastEigenvalue(symmetric.map((row) => row.map((value) => -value)));

// L with L L' = the matrix; null where it is not positive definite.
function cholesky(matrix) {
  const n = matrix.length,
    found = zeros(n, n);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let left = matrix[i][j];
      for (let k = 0; k < j; k += 1) left -= found[i][k] * found[j][k];
      if (i === j && !(left > 0)) return null;
      found[i][j] = i === j ? Math.sqrt(left) : left / found[j][j];
    }
  }
  return found;
}

function lowerInverse(lower) {
  const n = lower.length,
    found = zeros(n, n);
  for (let j = 0; j < n; j += 1) {
    found[j][j] = 1 / lower[j][j];
    for (let i = j + 1; i < n; i += 1) {
      let sum = 0;
      for (let k = j; k < i; k += 1) sum -= lower[i][k] * found[k][j];
      found[i][j] = sum / lower[i][i];
    }
  }
  return found;
}

// Student's t and Snedecor's F, to some twelve digits for any degrees of freedom, also far out in the tails.

// log B(k/2, b) for a whole k: Gamma(b + k/2)/Gamma(b) without the cancellation of two large logarithms.
function logBeta(k, b) {
  let found = 0,
    at = b,
    left = k;
  if (k % 2 === 1) {
    found += logHalfStep(b);
    at = b + 0.5;
    left = k - 1;
  }
  for (let i = 0; i < left / 2; i += 1) found += Math.log(at + i);
  return logGammaHalf(k) - found;
}

// log Gamma(b + 1/2) - log Gamma(b), by its asymptotic series after a few steps up.
function logHalfStep(b) {
  let steps = 0,
    at = b;
  while (at < 20) {
    steps += Math.log(at / (at + 0.5));
    at += 1;
  }
  const r = 1 / at,
    r2 = r * r;
  const series = r * (-1 / 8 + r2 * (1 / 192 + r2 * (-1 / 640 + r2 * (17 / 14336 - (r2 * 31) / 18432))));
  return steps + 0.5 * Math.log(at) + series;
}

function logGammaHalf(k) {
  let found = k % 2 === 1 ? 0.5 * Math.log(Math.PI) : 0;
  for (let i = k % 2 === 1 ? 0.5 : 1; i < k / 2; i += 1) found += Math.log(i);
  return found;
}

// P(q' > q), where q'/k has Snedecor's F with k and df degrees of freedom; with k = 1, q is a squared t.
// It is the incomplete beta function I_x(df/2, k/2) at x = df/(df + q).
function tail(k, df, q) {
  if (!(df > 0) || !(q >= 0)) return NaN;
  if (q === Infinity) return 0;
  const a = k / 2,
    b = df / 2;
  const x = df / (df + q),
    y = q / (df + q);
  if (q === 0) return 1;
  const front = Math.exp(-b * Math.log1p(q / df) + a * Math.log(y) - logBeta(k, b));
  // A series of positive terms where one of x and y is small enough; between, a continued fraction converges fast.
  if (x < 0.5) return front * series(b, a, x);
  return y * (a + b) < a + 1 ? 1 - front * series(a, b, y) : front * fraction(b, a, x, y);
}

function series(a, b, x) {
  let term = 1 / a,
    sum = term;
  for (let n = 0; n < 100000; n += 1) {
    term *= ((a + b + n) / (a + 1 + n)) * x;
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return sum;
}

// Didonato & Morris (1992), the continued fraction of BFRAC: it has 1 - x in it, which is small when df is large.
function fraction(a, b, x, y) {
  const lambda = (a + b) * y - b,
    c = 1 + lambda,
    c0 = b / a,
    c1 = 1 + 1 / a;
  let p = 1,
    s = a + 1,
    an = 0,
    bn = 1,
    an1 = 1,
    bn1 = c / c1,
    r = c1 / c;
  for (let n = 1; n < 100000; n += 1) {
    const t = n / a,
      w = n * (b - n) * x,
      e = a / s;
    const alpha = p * (p + c0) * e * e * (w * x);
    const beta = n + w / s + ((1 + t) / (c1 + t + t)) * (c + n * (y + 1));
    p = 1 + t;
    s += 2;
    [an, an1] = [an1, alpha * an + beta * an1];
    [bn, bn1] = [bn1, alpha * bn + beta * bn1];
    const before = r;
    r = an1 / bn1;
    if (Math.abs(r - before) <= 1e-16 * Math.abs(r)) break;
    an /= bn1;
    bn /= bn1;
    an1 = r;
    bn1 = 1;
  }
  return r;
}

// The t within which Student's t stays with a probability, by halving.
function studentReach(df, level) {
  const outside = 1 - level;
  let low = 0,
    high = 1;
  while (tail(1, df, high * high) > outside && high < 1e150) high *= 2;
  for (let i = 0; i < 200 && high - low > 1e-15 * high; i += 1) {
    const middle = (low + high) / 2;
    if (tail(1, df, middle * middle) > outside) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

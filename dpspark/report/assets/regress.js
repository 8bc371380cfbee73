// Least squares from the released matrix, with the privacy noise in the standard errors: what `dpspark regress` does.
// All in scaled coordinates z = (x - middle)/half, the intercept first; mapped to original units at the end.

const INTERCEPT = "(intercept)",
  ENOUGH = 2, // of kappa_w
  MOST = 0.5; // of a variance that is taken off

class NotIdentified extends Error {
  constructor(reason, strength) {
    super(reason);
    this.strength = strength;
  }
}

// Regressors and response as directions in z, and the map of their coefficients to original units.
function directionsOf(moments, formula) {
  const { terms, middle, half } = moments,
    width = terms.length;
  const at = formula.regressors.map((term) => terms.indexOf(term)),
    y = terms.indexOf(formula.response);
  const ratio = (i) => middle[i] / (half[i] > 0 ? half[i] : 1);
  const slopes = at.map((i) => half[y] / half[i]),
    first = formula.intercept ? 1 : 0,
    count = at.length + first;
  const regressors = zeros(width, count),
    response = new Float64Array(width);
  const toOriginal = zeros(count, count),
    shift = new Float64Array(count);
  response[y] = 1;
  at.forEach((i, k) => {
    regressors[i][first + k] = 1;
    toOriginal[first + k][first + k] = slopes[k];
  });
  if (formula.intercept) {
    regressors[0][0] = 1;
    toOriginal[0][0] = half[y];
    at.forEach((i, k) => {
      toOriginal[0][1 + k] = -slopes[k] * middle[i];
    });
    shift[0] = middle[y];
  } else {
    at.forEach((i, k) => {
      regressors[0][k] = ratio(i);
    });
    response[0] = ratio(y);
  }
  return { regressors, response, toOriginal, shift };
}

function fitScaled(moments, regressors, response) {
  const count = regressors[0].length;
  const both = regressors.map((row, i) => Float64Array.from([...row, response[i]]));
  const swept = sweep(congruent(moments.scaled, both), count);
  const inverse = swept.slice(0, count).map((row) => row.slice(0, count).map((value) => -value));
  const gamma = Float64Array.from(swept.slice(0, count), (row) => row[count]);
  const left = response.map((value, i) => value - dot(regressors[i], gamma));
  const omega = congruent(noiseAlong(moments.noise, left, moments.scaled), regressors);
  let bias = 0; // fitting to the noise makes the residuals look smaller by tr(inverse omega)
  for (let i = 0; i < count; i += 1) for (let j = 0; j < count; j += 1) bias += inverse[i][j] * omega[j][i];
  return { gamma, inverse, omega, residual: swept[count][count] + bias };
}

// kappa, and kappa_w: 1/E‖N‖ with N the noise measured by the signal, 0 where the matrix is not positive definite.
function strengthOf(moments, regressors) {
  const least = leastEigenvalue(congruent(moments.scaled, orthonormal(regressors)));
  const kappa = least / noiseSize(moments.noise, regressors[0].length, least);
  const matrix = congruent(moments.scaled, regressors);
  return { kappa, kappaW: least > 0 ? kappaW(matrix, regressors, moments.noise, moments.scaled) : 0 };
}

function kappaW(matrix, regressors, noise, scaled) {
  const root = cholesky(matrix);
  if (!root) return 0;
  const back = lowerInverse(root),
    factor = times(regressors, transpose(back));
  const square = congruent(congruent(noiseSpread(noise, factor, scaled), regressors), transpose(back));
  return 1 / expectedSize(square);
}

// E‖N‖ of E[N²], approximately: dpspark.mechanisms.gram.identification says why.
function expectedSize(square) {
  const top = largestEigenvalue(square);
  if (!(top > 0)) return 0;
  const first = square.reduce((sum, row, i) => sum + row[i], 0) / top,
    fourth = times(square, square).reduce((sum, row) => sum + dot(row, row), 0) / top ** 4,
    alone = 1.13 - 0.33 / first ** 2;
  return Math.sqrt(top) * (alone + ((2 - alone) * (fourth - 1)) / (fourth + 2.7));
}

// The noise's covariance at the true coefficients: less what the estimates' own noise adds to it.
function atTruth(moments, regressors, inverse, omega) {
  const root = cholesky(omega);
  if (!root) return omega;
  const more = congruent(
    noiseSpread(moments.noise, times(regressors, times(inverse, root)), moments.scaled),
    regressors,
  );
  const largest = largestEigenvalue(congruent(more, transpose(lowerInverse(root))));
  if (!(largest > 0)) return omega;
  const share = Math.min(1, MOST / largest);
  return omega.map((row, i) => row.map((value, j) => value - share * more[i][j]));
}

// The variance that the noise gives each estimate if it is off by t, as { level, slope, curve }:
// dpspark.analysis.inversion says why.
function inversionOf(moments, regressors, response, fit, toOriginal) {
  const { gamma, inverse, omega } = fit,
    left = response.map((value, i) => value - dot(regressors[i], gamma)),
    covariance = times(times(inverse, omega), inverse);
  return toOriginal.map((row) => {
    const around = noiseAlong(
      moments.noise,
      timesVector(regressors, timesVector(inverse, row)),
      moments.scaled,
    );
    const moved = timesVector(covariance, row),
      own = dot(row, moved),
      others = timesVector(regressors, moved).map((value) => (own > 0 ? value / own : 0)),
      turned = timesVector(around, others);
    return {
      level: Math.max(0, dot(left, timesVector(around, left))),
      slope: 2 * dot(left, turned),
      curve: Math.max(0, dot(others, turned)),
    };
  });
}

// The two ends of an interval: the roots in t of t² = reach²·(sampling + level + slope·t + curve·t²).
function endsOf({ level, slope, curve }, estimate, sampling, reach) {
  const total = level + sampling,
    share = total > 0 ? level / total : 0,
    square = reach * reach,
    leading = 1 - square * curve * share * share,
    middle = (square * slope * share) / 2,
    root = Math.sqrt(middle * middle + leading * square * total);
  return leading <= 0
    ? [-Infinity, Infinity]
    : [estimate - (middle + root) / leading, estimate - (middle - root) / leading];
}

function rSquared(moments, formula, response, residual) {
  const only = moments.terms.map((_, i) => Float64Array.of(i === 0 ? 1 : 0));
  const total = formula.intercept
    ? fitScaled(moments, only, response).residual
    : dot(response, timesVector(moments.scaled, response));
  return total > 0 ? 1 - residual / total : NaN;
}

// How many rows of equal weight say as much; NaN where the squared weights are not known.
function effectiveRows(moments) {
  const rows = moments.scaled[0][0],
    squared = moments.squared ? moments.squared[0][0] : NaN;
  if (!moments.weighted) return rows;
  return squared > 0 && rows > 0 ? rows ** 2 / squared : NaN;
}

// Whether the sampling error can be known: not from squared weights that are missing, or that noise drowns.
function trustedSquares(moments, regressors) {
  if (!moments.weighted) return true;
  if (!moments.squared || !(effectiveRows(moments) > 0)) return false;
  const block = congruent(moments.squared, regressors),
    noise = moments.squaredNoise;
  return noise ? kappaW(block, regressors, noise, moments.squared) >= ENOUGH : leastEigenvalue(block) > 0;
}

// For residuals of equal variance: E sum w e2 = sigma2 (sum w - tr H M), Var = sigma2 H M H, with M = sum w2 x x'.
function weightedSampling(moments, regressors, inverse, residual) {
  if (!moments.squared) return { sigma2: NaN, sampling: inverse.map((row) => row.map(() => NaN)) };
  const squared = congruent(moments.squared, regressors),
    turned = times(squared, inverse);
  const spare = moments.scaled[0][0] - turned.reduce((sum, row, i) => sum + row[i], 0),
    sigma2 = spare > 0 ? residual / spare : NaN;
  return { sigma2, sampling: times(inverse, turned).map((row) => row.map((value) => sigma2 * value)) };
}

function solve(moments, formula) {
  const { regressors, response, toOriginal, shift } = directionsOf(moments, formula);
  const strength = strengthOf(moments, regressors),
    count = regressors[0].length,
    rows = effectiveRows(moments);
  if (rows - count < 1) {
    const counted = `${Math.max(0, rows).toFixed(0)} ${moments.weighted ? "effective rows" : "rows"}`;
    throw new NotIdentified(`about ${counted} for ${count} coefficients, after noise`, strength);
  }
  if (strength.kappaW <= 0) {
    throw new NotIdentified("the noisy matrix of the regressors is not positive definite", strength);
  }
  if (strength.kappaW < ENOUGH) {
    const times_noise = general(strength.kappaW, 2);
    throw new NotIdentified(
      `the signal in the regressors is ${times_noise} times the noise (kappa_w); at least ${ENOUGH} is needed`,
      strength,
    );
  }
  const fit = fitScaled(moments, regressors, response),
    { gamma, inverse, omega, residual } = fit;
  const privacy = atTruth(moments, regressors, inverse, omega);
  if (residual <= 0) throw new NotIdentified("the residual sum of squares is not positive, after noise", strength);
  const df = trustedSquares(moments, regressors) ? rows - count : NaN,
    plain = residual / df;
  const { sigma2, sampling } = moments.weighted
    ? weightedSampling(moments, regressors, inverse, df > 0 ? residual : NaN)
    : { sigma2: plain, sampling: inverse.map((row) => row.map((value) => plain * value)) };
  const back = transpose(toOriginal);
  return {
    estimates: timesVector(toOriginal, gamma).map((value, i) => value + shift[i]),
    sampling: congruent(sampling, back),
    privacy: congruent(times(times(inverse, privacy), inverse), back),
    sigma2: sigma2 * moments.half[moments.terms.indexOf(formula.response)] ** 2,
    df,
    strength,
    rSquared: rSquared(moments, formula, response, residual),
    inversion: inversionOf(moments, regressors, response, fit, toOriginal),
  };
}

// All that `dpspark regress --json` says of a formula by the delta method; NaN where it says null.
function regress(moments, formula, level) {
  const names = [...(formula.intercept ? [INTERCEPT] : []), ...formula.regressors];
  const n = moments.scaled[0][0],
    effective = effectiveRows(moments);
  let found,
    status = "OK",
    reason = "";
  try {
    found = solve(moments, formula);
  } catch (error) {
    if (!(error instanceof NotIdentified)) throw error;
    [status, reason] = ["NOT_IDENTIFIED", error.message];
    const nothing = zeros(names.length, names.length).map((row) => row.fill(NaN));
    const estimates = new Float64Array(names.length).fill(NaN);
    found = {
      estimates,
      sampling: nothing,
      privacy: nothing,
      sigma2: NaN,
      df: effective - names.length,
      strength: error.strength,
      rSquared: NaN,
    };
  }
  const robust = status === "OK" ? robustOf(moments, formula, names) : null;
  if (robust) found.sampling = robust.sampling;
  const squares = !moments.weighted || Boolean(moments.squared),
    hasIntervals = status === "OK" ? !moments.weighted || found.sigma2 > 0 : squares;
  const dfs = robust ? robust.df : names.map(() => found.df),
    known = status === "OK" && hasIntervals;
  const covariance = found.sampling.map((row, i) => row.map((value, j) => value + found.privacy[i][j]));
  const terms = names.map((term, i) => {
    const estimate = found.estimates[i],
      error = Math.sqrt(covariance[i][i]),
      t = error ? estimate / error : NaN,
      reach = known ? studentReach(dfs[i], level) : NaN,
      [low, high] = known ? endsOf(found.inversion[i], estimate, found.sampling[i][i], reach) : [NaN, NaN];
    return {
      term,
      estimate,
      std_error: error,
      ci_low: low,
      ci_high: high,
      t,
      p_value: tail(1, dfs[i], t * t),
      privacy_std_error: Math.sqrt(found.privacy[i][i]),
    };
  });
  return {
    formula,
    level,
    group: moments.group,
    n,
    n_is_exact: moments.noise.count_is_exact,
    n_effective: effective,
    weighted: moments.weighted,
    hasIntervals,
    noIntervals: hasIntervals
      ? ""
      : `the rows are weighted, and ${squares ? "the noise drowns the moments of their squared weights" : "the release holds no squared weights"}`,
    terms,
    status,
    reason,
    errors: robust ? robust.errors : "classical",
    assumptions: assumptionsOf(moments, formula),
    sigma2: found.sigma2,
    residual_std_error: found.sigma2 >= 0 ? Math.sqrt(found.sigma2) : NaN,
    df: found.df,
    r_squared: found.rSquared,
    adj_r_squared: 1 - ((1 - found.rSquared) * (found.df + names.length - (formula.intercept ? 1 : 0))) / found.df,
    f: status === "OK" && hasIntervals ? waldTest(names, found, covariance) : null,
    kappa: found.strength.kappa,
    kappa_w: found.strength.kappaW,
  };
}

// What the release paid for, of a regression with these regressors in whatever order; nothing if it did not.
function paidOf(moments, formula) {
  const wanted = [...formula.regressors].sort().join("\n");
  return (moments.robust || []).find(
    (one) =>
      one.response === formula.response &&
      one.intercept === formula.intercept &&
      [...one.regressors].sort().join("\n") === wanted,
  );
}

// Its sampling covariance where variances differ, in the order of these names; null where equal variances are assumed.
function robustOf(moments, formula, names) {
  const paid = paidOf(moments, formula);
  if (!paid || paid.errors === "classical") return null;
  const at = names.map((name) => paid.terms.indexOf(name));
  return {
    errors: paid.errors,
    sampling: at.map((i) => Float64Array.from(at.map((j) => paid.sampling[i][j]))),
    df: at.map((i) => paid.df[i]),
  };
}

function assumptionsOf(moments, formula) {
  const paid = paidOf(moments, formula);
  return paid ? paid.assumptions : null;
}

// Are all slopes zero? Privacy noise included.
function waldTest(names, found, covariance) {
  const at = names.map((_, i) => i).filter((i) => names[i] !== INTERCEPT);
  if (!at.length) return null;
  const beta = at.map((i) => found.estimates[i]),
    size = at.length;
  const both = at.map((i, k) => Float64Array.from([...at.map((j) => covariance[i][j]), beta[k]]));
  both.push(Float64Array.from([...beta, 0]));
  const statistic = -sweep(both, size)[size][size] / size;
  return { statistic, df_num: size, df_denom: found.df, p_value: tail(size, found.df, size * statistic) };
}

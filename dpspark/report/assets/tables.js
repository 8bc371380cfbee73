// What is known of a matrix with products among its columns, and the noise that is left: what dpspark.core.tables has.

// Where the entries of each cell are, and how often it is seen.
function cellsOf(noise) {
  if (noise.cells) return noise.cells;
  const { where, cells } = noise.known,
    p = (noise.off_diagonal_std / noise.diagonal_std) ** 2,
    seen = new Float64Array(cells),
    entries = [];
  where.forEach((row, j) => {
    for (let i = 0; i <= j; i += 1) {
      const cell = row[i];
      if (cell === cells) continue; // it is 0
      const weight = i === j ? p : 1;
      entries.push([i, j, cell, weight]);
      seen[cell] += weight;
    }
  });
  noise.cells = { entries, seen };
  return noise.cells;
}

// The facts put into a symmetric matrix.
function putTables(noise, matrix) {
  const { entries, seen } = cellsOf(noise),
    { where, cells, tables } = noise.known,
    values = new Float64Array(cells + 1);
  for (const [i, j, cell, weight] of entries) values[cell] += (weight * matrix[i][j]) / seen[cell];
  tables.forEach((own, number) => putTotals(own, values, seen, noise.count_is_exact && number === 0));
  return where.map((row) => Float64Array.from(row, (cell) => values[cell]));
}

const sizeOf = (sizes) => sizes.reduce((product, size) => product * size, 1);

// For each cell of a table, the cell of the table of some of its columns that it adds up to.
function foldOf(table, part) {
  table.folds ??= new Map();
  const key = part.columns.join(" ");
  if (!table.folds.has(key)) {
    const at = part.columns.map((column) => table.columns.indexOf(column)),
      count = sizeOf(table.sizes),
      fold = new Int32Array(count);
    for (let cell = 0; cell < count; cell += 1) {
      const places = [];
      let rest = cell;
      for (let k = table.sizes.length - 1; k >= 0; k -= 1) {
        places[k] = rest % table.sizes[k];
        rest = (rest - places[k]) / table.sizes[k];
      }
      fold[cell] = at.reduce((sum, k) => sum * table.sizes[k] + places[k], 0);
    }
    table.folds.set(key, fold);
  }
  return table.folds.get(key);
}

// Of the tables with the same numbers: orthogonal parts, each from all tables that have it. Those without numbers come first.
function putTotals(tables, values, seen, countIsExact) {
  const parts = tables.map((part) => {
    const found = new Float64Array(sizeOf(part.sizes));
    let total = 0;
    for (const table of countIsExact && !part.columns.length ? [part] : tables) {
      if (!part.columns.every((column) => table.columns.includes(column))) continue;
      const share = seen[table.start] / (sizeOf(table.sizes) / sizeOf(part.sizes)),
        fold = foldOf(table, part);
      total += share;
      for (let cell = 0; cell < fold.length; cell += 1) found[fold[cell]] += share * values[table.start + cell];
    }
    return centreTable(part, found).map((value) => value / total);
  });
  tables.forEach((table) => {
    const count = sizeOf(table.sizes),
      sum = new Float64Array(count);
    tables.forEach((part, number) => {
      if (!part.columns.every((column) => table.columns.includes(column))) return;
      const fold = foldOf(table, part),
        others = count / sizeOf(part.sizes);
      for (let cell = 0; cell < count; cell += 1) sum[cell] += parts[number][fold[cell]] / others;
    });
    values.set(sum, table.start);
  });
}

// The mean along each column taken off.
function centreTable(table, values) {
  let found = values;
  table.columns.forEach((column, k) => {
    const rest = {
      columns: table.columns.filter((other) => other !== column),
      sizes: table.sizes.filter((_, other) => other !== k),
    };
    const fold = foldOf(table, rest),
      means = new Float64Array(sizeOf(rest.sizes));
    found.forEach((value, cell) => (means[fold[cell]] += value / table.sizes[k]));
    found = found.map((value, cell) => value - means[fold[cell]]);
  });
  return found;
}

// E[E F F' E] of what is left: column by column of F, Cov(E, e_j' E w) w.
function tablesSpread(noise, factor) {
  const width = factor.length,
    off = noise.off_diagonal_std ** 2,
    own = noise.diagonal_std ** 2,
    found = zeros(width, width),
    form = zeros(width, width);
  for (let r = 0; r < factor[0].length; r += 1) {
    const w = Float64Array.from(factor, (row) => row[r]);
    for (let j = 0; j < width; j += 1) {
      for (let i = 0; i < width; i += 1) form[i][j] = form[j][i] = off * w[i];
      form[j][j] = j === 0 && noise.count_is_exact ? 0 : own * w[j];
      const moved = timesVector(putTables(noise, form), w);
      for (let i = 0; i < width; i += 1) found[i][j] += moved[i];
      for (let i = 0; i < width; i += 1) form[i][j] = form[j][i] = 0;
    }
  }
  return found;
}

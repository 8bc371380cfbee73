// Numbers as the command line prints them.

// Python's %.{digits}g
function general(value, digits) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent >= digits || exponent < -4) {
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const sign = power[0] === "-" ? "-" : "+";
    return minus(`${trimmed(mantissa)}e${sign}${power.slice(1).padStart(2, "0")}`);
  }
  return minus(trimmed(value.toFixed(Math.max(0, digits - 1 - exponent))));
}

const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
const minus = (text) => text.replace("-", text.startsWith("-") ? "−" : "-");

// A new one for each number would take long.
const formats = new Map();
function formatOf(options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en-US", options));
  return formats.get(key);
}

// With thousands in groups.
function fixed(value, decimals) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1e15) return general(value, 6);
  const format = formatOf({ minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return format
    .format(value)
    .replace(/^-(?=.*[1-9])/, "−")
    .replace("-", "");
}

// So many digits, with thousands in groups where that is short.
function digits(value, most) {
  const size = Math.abs(value);
  if (!(size >= 1e-4 && size < 1e12)) return general(value, most);
  return formatOf({ maximumSignificantDigits: most }).format(value).replace("-", "−");
}

const whole = (value) => fixed(value, 0);

// As many decimals as show three digits of an error.
const decimalsOf = (error) => (error > 0 ? Math.min(20, Math.max(0, 2 - Math.floor(Math.log10(error)))) : 3);

const pText = (p) => (Number.isNaN(p) ? "–" : p < 2e-16 ? "<2e-16" : general(p, 3));

const stars = (p) => (p < 0.001 ? "***" : p < 0.01 ? "**" : p < 0.05 ? "*" : p < 0.1 ? "." : "");

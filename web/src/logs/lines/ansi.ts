/** Colours that a program printed, as spans of text. Everything else that drives a terminal is left out. */

export interface Style {
  /** 0 to 7: black, red, green, yellow, blue, magenta, cyan, white; undefined: the page's own. */
  colour?: number;
  background?: number;
  bold?: boolean;
  faint?: boolean;
  italic?: boolean;
  underlined?: boolean;
}

export interface Span {
  text: string;
  style: Style;
}

const PLAIN: Style = {};
// eslint-disable-next-line no-control-regex
const ESCAPE = /\x1b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_]|[ -/][0-~])/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g;

/** Return a line's text in spans of one style each. */
export function spansOf(line: string): Span[] {
  if (!line.includes("\x1b")) return [{ text: line.replace(CONTROL, ""), style: PLAIN }];
  const spans: Span[] = [];
  let style = PLAIN;
  let start = 0;
  const add = (text: string) => {
    const shown = text.replace(CONTROL, "");
    if (shown) spans.push({ text: shown, style });
  };
  for (const match of line.matchAll(ESCAPE)) {
    add(line.slice(start, match.index));
    start = match.index + match[0].length;
    if (match[2] === "m") style = styled(style, match[1] ?? "");
  }
  add(line.slice(start));
  return spans;
}

/** Return a line's text without colours. */
export function plain(line: string): string {
  return spansOf(line)
    .map(({ text }) => text)
    .join("");
}

function styled(before: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((code) => Number(code) || 0);
  let style = { ...before };
  for (let place = 0; place < codes.length; place++) {
    const code = codes[place] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underlined = true;
    else if (code === 7) style = { ...style, colour: style.background ?? 7, background: style.colour ?? 0 };
    else if (code === 22) style = { ...style, bold: false, faint: false };
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underlined = false;
    else if (code >= 30 && code <= 37) style.colour = code - 30;
    else if (code >= 90 && code <= 97) style.colour = code - 90;
    else if (code === 39) delete style.colour;
    else if (code >= 40 && code <= 47) style.background = code - 40;
    else if (code >= 100 && code <= 107) style.background = code - 100;
    else if (code === 49) delete style.background;
    else if (code === 38 || code === 48) {
      const isIndexed = codes[place + 1] === 5;
      const given = isIndexed ? rgbOf(codes[place + 2] ?? 0) : codes.slice(place + 2, place + 5);
      const found = isIndexed && (codes[place + 2] ?? 16) < 16 ? (codes[place + 2] ?? 0) % 8 : nearest(given);
      if (code === 38) style.colour = found;
      else style.background = found;
      place += isIndexed ? 2 : 4;
    }
  }
  return style;
}

/** Return red, green and blue of one of the 256 colours from number 16 on. */
function rgbOf(index: number): number[] {
  if (index >= 232) return [0, 0, 0].fill(8 + 10 * (index - 232));
  const place = Math.max(0, index - 16);
  return [Math.floor(place / 36), Math.floor(place / 6) % 6, place % 6].map((step) => (step ? 55 + 40 * step : 0));
}

/** Return the colour of the eight that is like this one: only they are readable on light and dark pages. */
function nearest([red = 0, green = 0, blue = 0]: number[]): number {
  const [high, low] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (high - low < 40) return high > 127 ? 7 : 0;
  const middle = (high + low) / 2;
  return (red > middle ? 1 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 4 : 0);
}

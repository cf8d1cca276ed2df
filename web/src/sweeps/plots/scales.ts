/** Where values stand on an axis, from 0 to 1. */
import { numberWord, type Value } from "../trials/trials";

interface Numbers {
  kind: "linear" | "log";
  min: number;
  max: number;
  /** All values, if they are few: these are the marks then. */
  few?: number[];
}

export type Scale = Numbers | { kind: "words"; words: string[] };

export interface Tick {
  at: number;
  word: string;
}

/** An axis with more words than these would be unreadable. */
const MOST_WORDS = 40;
/** A logarithmic axis begins here: the largest value is this many times the smallest, and most values are near the smallest. */
const LEAST_SPAN = 30;
const NEAR_THE_SMALLEST = 0.2;
const FEW = 6;

/** Return the scale that suits these values: words, or numbers on a linear axis, or on a logarithmic one if most values would stick together at its end. Null without values, or with too many words. */
export function scaleOf(values: readonly (Value | undefined)[]): Scale | null {
  const given = values.filter((value) => value !== undefined);
  const numbers = given.filter((value) => typeof value === "number");
  const words = [...new Set(given.filter((value) => typeof value === "string"))];
  const isNumber = numbers.length > 0 && words.every((word) => /^(NaN|-?Infinity)$/.test(word));
  if (!isNumber) {
    const all = [...new Set(given.map(String))];
    return all.length && all.length <= MOST_WORDS ? { kind: "words", words: all.sort(compareTexts) } : null;
  }
  const ordered = Float64Array.from(new Set(numbers)).sort();
  const [min = 0, max = 0] = [ordered[0], ordered.at(-1)];
  const middle = ordered[Math.floor(ordered.length / 2)] ?? min;
  const isLog = min > 0 && max >= LEAST_SPAN * min && middle < min + NEAR_THE_SMALLEST * (max - min);
  return { kind: isLog ? "log" : "linear", min, max, ...(ordered.length > 2 && ordered.length <= FEW && { few: [...ordered] }) };
}

const TEXTS = new Intl.Collator(undefined, { numeric: true });

export function compareTexts(a: string, b: string): number {
  return TEXTS.compare(a, b);
}

/** Return the position of a value; null if it has none. */
export function placeOn(scale: Scale, value: Value | undefined): number | null {
  if (value === undefined) return null;
  if (scale.kind === "words") {
    const index = scale.words.indexOf(`${value}`);
    if (index < 0) return null;
    return scale.words.length === 1 ? 0.5 : index / (scale.words.length - 1);
  }
  if (typeof value !== "number" || !Number.isFinite(value)) return null;
  if (scale.min === scale.max) return 0.5;
  if (scale.kind === "linear") return (value - scale.min) / (scale.max - scale.min);
  return value > 0 ? Math.log(value / scale.min) / Math.log(scale.max / scale.min) : null;
}

/** Return the number at a place of an axis of numbers. */
export function numberAt(scale: Numbers, at: number): number {
  if (scale.kind === "log") return scale.min * (scale.max / scale.min) ** at;
  return scale.min + at * (scale.max - scale.min);
}

/** Return at most about `most` marks of an axis. Axes begin and end at the values, so their ends are marked with these. */
export function ticksOn(scale: Scale, most: number): Tick[] {
  if (scale.kind === "words") {
    const every = Math.ceil(scale.words.length / Math.max(1, most * 2));
    return scale.words.flatMap((word, index) => (index % every ? [] : [{ at: placeOn(scale, word) ?? 0, word }]));
  }
  const { min, max } = scale;
  if (min === max) return [{ at: 0.5, word: numberWord(min) }];
  const between = scale.few?.slice(1, -1) ?? (scale.kind === "log" ? powers(min, max, most) : steps(min, max, most));
  const all = [min, ...between, max].map((value) => ({ at: placeOn(scale, value) ?? 0, word: shortWord(value, max - min) }));
  const least = scale.few ? 0.04 : 0.6 / Math.max(2, most);
  return all.filter(({ at }, index) => index === 0 || index === all.length - 1 || (at > least && at < 1 - least));
}

/** Return a number with no more digits than tell it from others on an axis of this span. */
function shortWord(value: number, span: number): string {
  if (Number.isInteger(value) || value === 0) return numberWord(value);
  const digits = Math.min(5, Math.max(2, Math.ceil(Math.log10(Math.abs(value) / span)) + 3));
  return numberWord(Number(value.toPrecision(digits)));
}

function steps(min: number, max: number, most: number): number[] {
  const rough = (max - min) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? rough;
  const found = [];
  for (let count = Math.ceil(min / step); count * step <= max && found.length < 100; count++) found.push(Number((count * step).toPrecision(12)));
  return found;
}

function powers(min: number, max: number, most: number): number[] {
  const [first, last] = [Math.ceil(Math.log10(min)), Math.floor(Math.log10(max))];
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
  const found = [];
  for (let exponent = first; exponent <= last; exponent += every) found.push(Number(`1e${exponent}`));
  return found;
}

/** Return the colour at a place between worst (0) and best (1). Colours differ in lightness, so people with any colour blindness can distinguish them. */
export function rampColour(at: number, dark: boolean): string {
  const stops = dark ? DARK : LIGHT;
  const place = Math.min(1, Math.max(0, at)) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  const [from, to] = [stops[index] ?? [0, 0, 0], stops[index + 1] ?? [0, 0, 0]];
  const mixed = from.map((part, channel) => Math.round(part + (place - index) * ((to[channel] ?? 0) - part)));
  return `rgb(${mixed.join(" ")})`;
}

const LIGHT = [[197, 206, 214], [92, 174, 168], [6, 71, 67]] as const;
const DARK = [[66, 76, 87], [42, 143, 136], [190, 255, 249]] as const;

/** Amounts with units. */

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Return a size with at most three digits: "512 GiB", "1.5 TiB". */
export function bytes(size: number): string {
  let left = size;
  let unit = 0;
  while (left >= 1024 && unit < SIZES.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left >= 10 || Number.isInteger(left) ? Math.round(left) : left.toFixed(1)} ${SIZES[unit]}`;
}

/** Return a number with separators: "10,000". */
export function count(amount: number): string {
  return amount.toLocaleString("en");
}

/** Return GPUs and their type: "1,024 h100"; empty if there are none. */
export function gpusWords(gpus: number, gpuType: string): string {
  return gpus ? [count(gpus), gpuType].filter(Boolean).join(" ") : "";
}

/** Return GPUs of a type that is not named: "1 GPU", "1,024 GPUs"; empty if there are none. */
export function anyGpus(gpus: number): string {
  return gpusWords(gpus, gpus === 1 ? "GPU" : "GPUs");
}

/** Return processors, from thousandths of one. */
export function cpus(millis: number): string {
  return `${Math.round(millis / 100) / 10}`;
}

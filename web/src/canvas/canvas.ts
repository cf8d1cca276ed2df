/** Canvases that are sharp on every screen. */

/** Return the brush of a cleared canvas of this size in pixels of the page; null if the browser has none. */
export function prepared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(Math.max(1, height) * scale)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const paint = canvas.getContext("2d");
  paint?.setTransform(scale, 0, 0, scale, 0, 0);
  paint?.clearRect(0, 0, width, height);
  return paint;
}

/** Content for screen readers alone. Sizes are texts: as a number, 1 would stand for the size of the box around it. */
export const HIDDEN = {
  position: "absolute",
  width: "1px",
  height: "1px",
  overflow: "hidden",
  clipPath: "inset(50%)",
  whiteSpace: "nowrap",
} as const;

export type Arrow = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

/** Whether a key moves to a neighbour. */
export function isArrow(key: string): key is Arrow {
  return key === "ArrowLeft" || key === "ArrowRight" || key === "ArrowUp" || key === "ArrowDown";
}

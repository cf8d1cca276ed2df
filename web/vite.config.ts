import react from "@vitejs/plugin-react";
import { defineConfig, loadEnv } from "vite";

// For `npx vite` beside a running Web API: KAJI_SERVER=http://127.0.0.1:PORT npx vite
const server = loadEnv("", ".", "KAJI_")["KAJI_SERVER"];

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/kajitori/web_page",
    emptyOutDir: true,
    target: "es2022",
    reportCompressedSize: false,
    // What every page needs is in two files, which compress better than sixty: libraries, and modules of our own.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "libraries", tags: ["$initial"], test: /node_modules/, priority: 2 },
            { name: "first", tags: ["$initial"], priority: 1 },
          ],
        },
      },
    },
  },
  server: { proxy: server ? { "/v1": server, "/sign-in": server, "/sign-out": server } : {} },
});

import react from "@vitejs/plugin-react";
import { defineConfig, loadEnv } from "vite";

// For `npx vite` beside a running Web API: KAJI_SERVER=http://127.0.0.1:PORT npx vite
const server = loadEnv("", ".", "KAJI_")["KAJI_SERVER"];

export default defineConfig({
  plugins: [react()],
  build: { outDir: "../src/kajitori/web_page", emptyOutDir: true, target: "es2022", reportCompressedSize: false },
  server: { proxy: server ? { "/v1": server, "/sign-in": server, "/sign-out": server } : {} },
});

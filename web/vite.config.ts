/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig, type ProxyOptions } from "vite";

/** Address at which `npm run dev` and `npm run preview` find the server: its page, cookie and sockets. */
const server = process.env.SYSOP_SERVER ?? "http://127.0.0.1:8765";

/** The server answers only requests from its own origin, so the proxy sets that origin. */
const proxied: ProxyOptions = {
  target: server,
  changeOrigin: true,
  ws: true,
  configure: (proxy) => {
    const own = (request: { setHeader(name: string, value: string): void }) =>
      request.setHeader("origin", new URL(server).origin);
    proxy.on("proxyReq", own);
    proxy.on("proxyReqWs", own);
  },
};
/** `/?token=…` must reach the server too, which answers with the cookie. */
const visit = "^/\\?token=.*";
const proxy = { "/api": proxied, "/login": proxied, [visit]: proxied };

export default defineConfig({
  plugins: [react()],
  server: { proxy },
  preview: { proxy },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600, // the terminal: loaded apart, 136 KB packed
  },
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node" },
});

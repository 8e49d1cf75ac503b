/// <reference types="vitest/config" />
import { defineConfig, type Plugin, type ProxyOptions, type Rollup } from "vite";

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

/** Name of the chunk of a session's messages; see `src/conversation/parts.ts`. */
const PARTS = "parts";

/** Returns the names of a chunk and of everything that it imports statically. */
function withImports(first: string, bundle: Rollup.OutputBundle): string[] {
  const files = new Set([first]);
  for (const file of files) {
    const chunk = bundle[file];
    if (chunk?.type === "chunk") for (const imported of chunk.imports) files.add(imported);
  }
  return [...files];
}

/**
 * Completes `index.html` for the first paint: its styles are part of it, because each file that blocks the paint costs a
 * round trip, and its script knows the files that a session with messages needs.
 */
function firstPaint(): Plugin {
  let styles: string[] = [];
  return {
    name: "first-paint",
    enforce: "post",
    generateBundle: {
      order: "pre",
      // Otherwise, each chunk that imports the page's script would load the styles as a file before it runs.
      handler: (_, bundle) => {
        const entries = Object.values(bundle).filter((file) => file.type === "chunk" && file.isEntry);
        styles = entries.flatMap((entry) => {
          const { importedCss } = (entry as Rollup.OutputChunk).viteMetadata ?? {};
          const files = [...(importedCss ?? [])];
          importedCss?.clear();
          return files;
        });
      },
    },
    transformIndexHtml: {
      order: "post",
      handler: (html, { bundle }) => {
        if (!bundle) return html; // the development server
        const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
        const parts = chunks.find(({ name, isDynamicEntry }) => isDynamicEntry && name === PARTS);
        if (!parts) throw new Error(`no chunk is called ${PARTS}`);
        const entries = chunks.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName);
        const files = withImports(parts.fileName, bundle).filter((file) => !entries.includes(file));
        const preloads = files.map((file) => `/${file}`).join(" ");
        if (styles.length === 0) throw new Error("the page has no styles");
        const tags = styles.map((file) => {
          const style = bundle[file];
          if (style?.type !== "asset") throw new Error(`${file} is not in the bundle`);
          delete bundle[file];
          return { tag: "style", children: String(style.source), injectTo: "head" as const };
        });
        const preloading = html.replace(
          '<script src="/theme.js"',
          (tag) => `${tag} data-parts="${preloads}"`,
        );
        return { html: preloading, tags };
      },
    },
  };
}

export default defineConfig({
  plugins: [firstPaint()],
  // The page is written against React's interface, which Preact implements; see docs/adr/0085.
  resolve: {
    alias: {
      "react/jsx-runtime": "preact/jsx-runtime",
      "react/jsx-dev-runtime": "preact/jsx-dev-runtime",
      "react-dom/client": "preact/compat/client",
      "react-dom/server": "preact/compat/server",
      "react-dom": "preact/compat",
      react: "preact/compat",
    },
  },
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

/** Renderer of a WebGL context. Browsers do not always report a software renderer as a performance caveat. */

/** Matches the names of renderers that draw with the CPU: of Chromium, Mesa, Windows and macOS. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|lavapipe|basic render|software/i;

/** Returns the name of the renderer. */
export function rendererOf(context: WebGL2RenderingContext): string {
  const info = context.getExtension("WEBGL_debug_renderer_info");
  return String(context.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : context.RENDERER));
}

/** Returns true if the renderer draws with the CPU. */
export function isSoftwareRenderer(renderer: string): boolean {
  return SOFTWARE.test(renderer);
}

/** Button that copies text. */
import { useRef } from "react";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const button = useRef<HTMLButtonElement>(null);
  const copy = async () => {
    const done = await copyText(text);
    const { current } = button;
    if (!current) return;
    current.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => {
      current.textContent = label;
    }, 1_500);
  };
  return (
    <button type="button" className="small plain" ref={button} onClick={() => void copy()} aria-live="polite">
      {label}
    </button>
  );
}

/** Copies text; without TLS there is no clipboard API, so it falls back to `execCommand`. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    // Outside of an open dialog, nothing can be selected.
    (document.activeElement?.closest("dialog") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
